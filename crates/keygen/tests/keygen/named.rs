//! The start of test programs that have a main of their own: their tests by name, one after another.

/// A test with its name.
macro_rules! named {
    ($($path:ident)::+) => {
        (
            stringify!($($path)::+),
            $($path)::+,
        )
    };
}
pub(crate) use named;

/// Runs the tests whose name contains one of the command line's words, or all without words; `run`
/// gets the name and the test. Ends the process with status 101 if one fails.
pub(crate) fn run_named<T: Copy + std::panic::RefUnwindSafe>(
    tests: &[(&str, T)],
    run: impl Fn(&str, T) + std::panic::RefUnwindSafe,
) {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let mut failed = false;
    for (name, test) in tests {
        let name = name.replace(' ', "");
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        // The panic's message is already printed.
        match std::panic::catch_unwind(|| run(&name, *test)) {
            Ok(()) => println!("test {name} ... ok"),
            Err(_) => {
                println!("test {name} ... FAILED");
                failed = true;
            }
        }
    }
    if failed {
        std::process::exit(101);
    }
}

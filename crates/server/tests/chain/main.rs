//! The two processes of the server, executed for real behind a fake monitor, with OpenSSH's
//! client as the judge. This program is the server's roles, too: it executes itself.

mod fake_monitor;
mod hostile;
mod peer;
mod sessions;

/// A test: its name and its body.
pub type Test = (&'static str, fn());

fn main() {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_default();
    match first.as_str() {
        privsep::roles::ROLE_AUTH => std::process::exit(server::auth_main()),
        privsep::roles::ROLE_SESSION => std::process::exit(server::session_main()),
        _ => {}
    }
    let filter = if first.starts_with('-') {
        String::new()
    } else {
        first
    };
    let tests: Vec<Test> = [hostile::TESTS, sessions::TESTS].concat();
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, body) in tests.into_iter().filter(|(name, _)| name.contains(&filter)) {
        let before = std::time::Instant::now();
        let outcome = std::panic::catch_unwind(body);
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!(
            "test {name} ... {verdict} ({} ms)",
            before.elapsed().as_millis()
        );
        match outcome {
            Ok(()) => passed += 1,
            Err(_) => failed.push(name),
        }
    }
    println!(
        "test result: {passed} passed, {} failed {failed:?}",
        failed.len()
    );
    if !failed.is_empty() {
        std::process::exit(1);
    }
}

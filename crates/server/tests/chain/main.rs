//! The server's two processes, executed with a fake monitor, with OpenSSH's client as the judge.
//! This program is the server's roles, too: it executes itself.

mod client;
mod fake_monitor;
mod forced;
mod hostile;
mod peer;
mod requests;
mod sessions;

/// A test: its name and its body.
pub type Test = (&'static str, fn());

/// Set for the roles, so that a role that is not recognised cannot run the tests once more.
pub const IS_A_ROLE: &str = "FULMAR_CHAIN_ROLE";

fn main() {
    let mut arguments = std::env::args();
    let called = arguments.next().unwrap_or_default();
    let first = arguments.next().unwrap_or_default();
    // A role is named by the first argument, or by the name it is called by. Whatever else is
    // called like a role must never run the tests: they would execute it again without end.
    let role = if called.starts_with("sshd-") {
        &called
    } else {
        &first
    };
    match role.as_str() {
        privsep::roles::ROLE_AUTH => std::process::exit(server::auth_main()),
        privsep::roles::ROLE_SESSION => std::process::exit(server::session_main()),
        other if other.starts_with("sshd-") => std::process::exit(1),
        other => assert!(
            std::env::var_os(IS_A_ROLE).is_none(),
            "no role is called {other}"
        ),
    }
    let filter = if first.starts_with('-') {
        String::new()
    } else {
        first
    };
    let tests: Vec<Test> = [
        hostile::TESTS,
        sessions::TESTS,
        forced::TESTS,
        requests::TESTS,
    ]
    .concat();
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
    fake_monitor::clear();
    println!(
        "test result: {passed} passed, {} failed {failed:?}",
        failed.len()
    );
    if !failed.is_empty() {
        std::process::exit(1);
    }
}

//! A short run of each kind of cases, always the same.

use std::process::Command;

fn run(kind: &str, rounds: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_differ"));
    let output = command.args([kind, "--rounds", rounds]).output();
    let output = output.expect("it starts");
    let told = String::from_utf8_lossy(&output.stdout);
    // Also the line with the reason why nothing was compared.
    interop::report::say(&String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
}

#[test]
fn configurations_are_read_alike() {
    run("config", "120");
}

#[test]
fn copies_come_to_the_same() {
    run("copies", "6");
}

#[test]
fn restrictions_leave_the_same() {
    run("restrictions", "3");
}

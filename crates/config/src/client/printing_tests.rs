//! What `ssh -G` prints.

use super::*;

#[test]
fn what_cannot_be_carried_out_is_printed_all_the_same() {
    let text = "LocalForward /${NO_SUCH} h:2\n";
    let env = FakeEnvironment::new();
    let mut line = CommandLine::new();
    assert!(try_resolve(text, "h", &line, &env).is_err());
    let command = "ProxyCommand %{h}\n";
    assert!(try_resolve(command, "h", &line, &env).is_err());
    line.only_prints = true;
    assert!(try_resolve(text, "h", &line, &env).is_ok());
    let printed = try_resolve(command, "h", &line, &env).unwrap().dump();
    assert!(printed.contains("proxycommand %{h}\n"));
}

#[test]
fn forwarding_of_standard_input_sets_defaults_alone() {
    let mut line = CommandLine::new();
    line.forwards_stdio = true;
    let env = FakeEnvironment::new();
    let dump = |text: &str, line: &CommandLine| try_resolve(text, "h", line, &env).unwrap().dump();
    let said = dump("", &line);
    assert!(
        said.contains("clearallforwardings yes\n") && said.contains("exitonforwardfailure yes\n")
    );
    assert!(dump("ClearAllForwardings no\n", &line).contains("clearallforwardings no\n"));
    line.option("ExitOnForwardFailure=no");
    assert!(dump("", &line).contains("exitonforwardfailure no\n"));
}

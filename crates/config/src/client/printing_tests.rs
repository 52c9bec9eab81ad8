//! What `ssh -G` prints, and what the options hold of it.

use super::*;
use crate::forward::ForwardSpec;

/// As with OpenSSH 9.2 and 10.6.
#[test]
fn commands_are_printed_unexpanded_and_forwardings_must_be_expanded() {
    let env = FakeEnvironment::new();
    let mut line = CommandLine::new();
    let command = "ProxyCommand %{h}\n";
    assert!(try_resolve(command, "h", &line, &env).is_err());
    line.only_prints = true;
    for refused in [
        "LocalForward /${NO_SUCH} h:2\n",
        "LocalForward /tmp/%Q h:2\n",
        "RemoteForward 1 /tmp/%Q\n",
        "DynamicForward /tmp/%Q\n",
        "ForwardAgent /tmp/%Q\n",
    ] {
        assert!(try_resolve(refused, "h", &line, &env).is_err(), "{refused}");
    }
    let text = "LocalForward ~nobody-of-this-name/a h:1\n";
    assert!(try_resolve(text, "h", &CommandLine::new(), &env).is_err());
    let printed = try_resolve(text, "h", &line, &env).unwrap().dump();
    assert!(printed.contains("localforward ~nobody-of-this-name/a [h]:1\n"));
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

#[test]
fn forwardings_are_typed_and_their_paths_expanded() {
    let text = "LocalForward 80 h:81\nLocalForward *:0082 /run/%r\nLocalForward \"/a b\" /c\\ d\nRemoteForward 1\nRemoteForward 0 ~/s\n\
        DynamicForward [::1]:3\nGatewayPorts yes\nStreamLocalBindMask 0111\n";
    let options = resolve(text, "h");
    assert!(options.warnings.is_empty());
    assert!(options.forwarding.gateway_ports && !options.forwarding.exit_on_forward_failure);
    assert_eq!(options.forwarding.stream_local_bind_mask, 0o111);
    let shown = |specs: &[ForwardSpec]| -> Vec<String> {
        let each = |spec: &ForwardSpec| format!("{} {}", spec.listen, spec.to);
        specs.iter().map(each).collect()
    };
    let user = &options.user;
    assert_eq!(
        shown(&options.forwarding.local_forwards),
        [
            "80 [h]:81".to_owned(),
            format!("[*]:82 /run/{user}"),
            "/a b /c d".to_owned()
        ]
    );
    assert_eq!(
        shown(&options.forwarding.remote_forwards),
        ["1 [socks]:0", "0 /home/local/s"]
    );
    assert_eq!(
        shown(&options.forwarding.dynamic_forwards),
        ["[::1]:3 [socks]:0"]
    );
    let cleared = resolve(&format!("{text}ClearAllForwardings yes\n"), "h");
    assert!(!cleared.dump().contains("localforward"));
    assert!(
        cleared.forwarding.local_forwards.is_empty()
            && cleared.forwarding.remote_forwards.is_empty()
    );
    assert!(cleared.forwarding.dynamic_forwards.is_empty());
}

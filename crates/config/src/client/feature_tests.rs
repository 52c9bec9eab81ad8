//! Keywords of connection sharing, tunnels and the agent.

use super::*;

#[test]
fn sharing_is_carried_out() {
    use crate::client::{ControlMaster, ControlPersist};
    let sharing = |text: &str| {
        let options = resolve(text, "h");
        assert!(options.warnings.is_empty());
        let ConnectionOptions {
            control_master,
            control_path,
            control_persist,
            ..
        } = options.connection;
        (control_master, control_path, control_persist)
    };
    let none = (ControlMaster::No, None, ControlPersist::No);
    assert_eq!(sharing(""), none);
    assert_eq!(sharing("ControlPath none\nControlPersist no\n"), none);
    let all = "ControlMaster autoask\nControlPath /x/%h-%p\nControlPersist 1m30s\n";
    let path = Some("/x/h-22".to_owned());
    let expected = (ControlMaster::AutoAsk, path, ControlPersist::Seconds(90));
    assert_eq!(sharing(all), expected);
    let forever = (ControlMaster::Yes, None, ControlPersist::Forever);
    assert_eq!(sharing("ControlMaster yes\nControlPersist 0\n"), forever);
}

#[test]
fn a_tunnel_and_its_devices_are_carried_out() {
    use crate::client::{Tunnel, TunnelDevice};
    let tunnel = |text: &str| {
        let options = resolve(text, "h");
        assert!(options.warnings.is_empty());
        (options.forwarding.tunnel, options.forwarding.tunnel_device)
    };
    let any = TunnelDevice::default();
    assert_eq!(tunnel(""), (Tunnel::No, any));
    assert_eq!(tunnel("Tunnel yes\n"), (Tunnel::PointToPoint, any));
    let devices = TunnelDevice {
        local: Some(3),
        remote: None,
    };
    assert_eq!(
        tunnel("Tunnel ethernet\nTunnelDevice 3:any\n"),
        (Tunnel::Ethernet, devices)
    );
    assert_eq!(
        tunnel("Tunnel yes\nClearAllForwardings yes\n"),
        (Tunnel::No, any)
    );
}

#[test]
fn keys_are_added_to_the_agent_as_the_words_say() {
    use crate::client::{AddKeysToAgent, YesNoAsk};
    let added = |value: &str| {
        let options = resolve(&format!("AddKeysToAgent {value}\n"), "h");
        assert!(options.warnings.is_empty());
        options.user_keys.add_to_agent
    };
    let plain = AddKeysToAgent {
        adds: YesNoAsk::Yes,
        ..AddKeysToAgent::default()
    };
    assert_eq!(
        resolve("", "h").user_keys.add_to_agent,
        AddKeysToAgent::default()
    );
    assert_eq!(added("no"), AddKeysToAgent::default());
    assert_eq!(added("yes"), plain);
    assert_eq!(added("ask").adds, YesNoAsk::Ask);
    let confirm = AddKeysToAgent {
        confirm: true,
        ..plain
    };
    assert_eq!(added("confirm"), confirm);
    let lifetime_s = Some(5400);
    assert_eq!(
        added("confirm 1h30m"),
        AddKeysToAgent {
            lifetime_s,
            ..confirm
        }
    );
    assert_eq!(
        added("90m"),
        AddKeysToAgent {
            lifetime_s,
            ..plain
        }
    );
    assert_eq!(added("0"), plain);
}

/// As with OpenSSH: a list that adds to the default or takes from it leaves the order to what known_hosts has.
#[test]
fn a_whole_list_of_host_key_algorithms_has_the_users_order() {
    for (list, is_the_users) in [
        ("ssh-ed25519", true),
        ("^ssh-ed25519", true),
        ("+ssh-rsa", false),
        ("-*cert*", false),
    ] {
        let options = resolve(&format!("HostKeyAlgorithms {list}\n"), "h");
        let is_set = options.algorithms.host_key_algorithms_set;
        assert_eq!(is_set, is_the_users, "{list}");
    }
}

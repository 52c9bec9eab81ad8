//! What a connection goes without if the host's key has changed and `StrictHostKeyChecking no` lets it
//! pass: whoever is at the other end must get no secret, and no way to this machine's agent, X server and
//! networks. The lines and their order equal OpenSSH's.

use config::client::{ClientOptions, ForwardAgent, Tunnel};

use crate::error::ClientError;
use crate::log::error;
use crate::plan::Plan;

/// The options and the plan for such a connection; logs what they lack now.
///
/// # Errors
/// [`ClientError::Refused`] if `ExitOnForwardFailure` is set and something of it was wanted. Passwords count,
/// too, as with OpenSSH.
pub(crate) fn restrict(
    options: &ClientOptions,
    plan: &Plan,
) -> Result<(Box<ClientOptions>, Plan), ClientError> {
    let mut options = Box::new(options.clone());
    let plan = Plan {
        agent: None,
        x11: None,
        is_distrusted: true,
        ..plan.clone()
    };
    let authentication = &mut options.authentication;
    let forwarding = &mut options.forwarding;
    let take = |flag: &mut bool| std::mem::take(flag);
    let agent = std::mem::take(&mut forwarding.agent);
    let ports = [
        &mut forwarding.local_forwards,
        &mut forwarding.dynamic_forwards,
        &mut forwarding.remote_forwards,
    ]
    .map(std::mem::take);
    let tunnel = std::mem::replace(&mut forwarding.tunnel, Tunnel::No);
    let dropped = [
        (
            "Password authentication",
            take(&mut authentication.password_authentication),
        ),
        (
            "Keyboard-interactive authentication",
            take(&mut authentication.kbd_interactive_authentication),
        ),
        ("Agent forwarding", agent != ForwardAgent::No),
        ("X11 forwarding", take(&mut forwarding.x11)),
        ("Port forwarding", ports.iter().any(|list| !list.is_empty())),
        ("Tunnel forwarding", tunnel != Tunnel::No),
    ];
    let mut is_any = false;
    for (what, _) in dropped.iter().filter(|(_, was_wanted)| *was_wanted) {
        error!("{what} is disabled to avoid man-in-the-middle attacks.");
        is_any = true;
    }
    if is_any && options.forwarding.exit_on_forward_failure {
        return Err(ClientError::Refused(
            "Error: forwarding disabled due to host key check failure".into(),
        ));
    }
    Ok((options, plan))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::client::{ClientConfig, CommandLine};

    use super::*;
    use crate::local::Here;

    fn options(lines: &[&str]) -> ClientOptions {
        let mut line = CommandLine::new();
        lines.iter().for_each(|text| line.option(*text));
        ClientConfig::none(Path::new("/nonexistent"))
            .resolve("h", &line, &Here::default())
            .unwrap()
    }

    /// The lines, and the options and plan that are left.
    fn restricted(lines: &[&str]) -> (String, Result<(Box<ClientOptions>, Plan), ClientError>) {
        let seen = std::rc::Rc::new(std::cell::RefCell::new(String::new()));
        let written = std::rc::Rc::clone(&seen);
        let plan = Plan {
            agent: Some("/agent".into()),
            command_line: true,
            ..Plan::exec("true")
        };
        let outcome = crate::log::read_by(
            Box::new(move |line| {
                written.borrow_mut().push_str(line);
                written.borrow_mut().push('\n');
            }),
            || restrict(&options(lines), &plan),
        );
        (seen.take(), outcome)
    }

    #[test]
    fn a_changed_host_gets_no_secrets_and_no_forwardings() {
        let (said, left) = restricted(&[
            "ForwardAgent=yes",
            "ForwardX11=yes",
            "DynamicForward=1080",
            "RemoteForward=9000 127.0.0.1:22",
            "Tunnel=yes",
        ]);
        let (left, plan) = left.unwrap();
        let names: Vec<&str> = said
            .lines()
            .filter_map(|line| {
                line.strip_suffix(" is disabled to avoid man-in-the-middle attacks.")
            })
            .collect();
        assert_eq!(
            names,
            [
                "Password authentication",
                "Keyboard-interactive authentication",
                "Agent forwarding",
                "X11 forwarding",
                "Port forwarding",
                "Tunnel forwarding"
            ]
        );
        assert!(!left.authentication.password_authentication);
        assert!(!left.authentication.kbd_interactive_authentication);
        assert!(!left.forwarding.x11 && left.forwarding.agent == ForwardAgent::No);
        assert!(!crate::forward::SessionForwards::are_wanted(&left, &plan));
        assert!(plan.agent.is_none() && plan.is_distrusted);
    }

    #[test]
    fn exit_on_forward_failure_ends_what_lacks_anything() {
        let strict = "ExitOnForwardFailure=yes";
        assert!(restricted(&[strict]).1.is_err(), "passwords count");
        let nothing = [
            "PasswordAuthentication=no",
            "KbdInteractiveAuthentication=no",
        ];
        let (said, left) = restricted(&[&nothing[..], &[strict]].concat());
        assert!(left.is_ok() && said.is_empty(), "{said}");
        let forwards = [&nothing[..], &[strict, "LocalForward=9000 a:22"]].concat();
        assert!(restricted(&forwards).1.is_err());
    }
}

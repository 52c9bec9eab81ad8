//! Reports a command's end to the client: `exit-status` or `exit-signal` (RFC 4254 §6.10).

use proto::channel::Request;
use sys::process::ExitStatus;
use wire::EXTENSION_DOMAIN;

/// Makes the channel request for an exit status.
pub(super) fn request(status: ExitStatus) -> Request {
    match status {
        ExitStatus::Exited(code) => Request::ExitStatus {
            status: u32::from(code),
        },
        ExitStatus::Signaled {
            signal,
            core_dumped,
        } => Request::ExitSignal {
            name: match signal.ssh_name() {
                Some(name) => name.to_owned(),
                // RFC 4254 §6.10: other signal names have a domain.
                None => format!("SIG{}@{EXTENSION_DOMAIN}", signal.as_raw()),
            },
            core_dumped,
            message: String::new(),
            language: String::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use sys::signals::Signal;

    use super::*;

    #[test]
    fn a_signal_is_told_by_its_name_without_sig() {
        let ended = |signal, core_dumped| {
            request(ExitStatus::Signaled {
                signal,
                core_dumped,
            })
        };
        assert_eq!(
            request(ExitStatus::Exited(255)),
            Request::ExitStatus { status: 255 }
        );
        assert!(matches!(
            ended(Signal::SEGV, true),
            Request::ExitSignal { name, core_dumped: true, .. } if name == "SEGV"
        ));
        assert!(matches!(
            ended(Signal::SYS, false),
            Request::ExitSignal { name, core_dumped: false, .. } if name.contains('@')
        ));
    }
}

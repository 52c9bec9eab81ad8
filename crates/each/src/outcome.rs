//! How a host ended, the exit status of the run, and the summary of failures.

use std::collections::BTreeMap;

use client::ClientError;
use escape::one_line;

use crate::ranges;

/// Exit status of a host without an exit status of its own, as ssh's.
pub(crate) const STATUS_FAILED: i32 = 255;

/// How a host ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostOutcome {
    /// The command's exit status, or 0 for a copy; `None` if there is none.
    pub(crate) status: Option<i32>,
    /// Why it failed, without the host's name, so that hosts with like causes are grouped; `None` if
    /// it succeeded.
    pub(crate) cause: Option<String>,
}

impl HostOutcome {
    /// The host's command ended with this status.
    pub(crate) fn exit(status: i32) -> Self {
        Self {
            status: Some(status),
            cause: (status != 0).then(|| format!("exit {status}")),
        }
    }

    pub(crate) fn failed(cause: impl Into<String>) -> Self {
        Self {
            status: None,
            cause: Some(cause.into()),
        }
    }

    pub(crate) fn is_success(&self) -> bool {
        self.cause.is_none()
    }

    /// The status for the exit status of the run.
    fn weight(&self) -> i32 {
        match (self.status, &self.cause) {
            (Some(status), _) => status,
            (None, _) => STATUS_FAILED,
        }
    }
}

/// The words for an error of a connection in the summary, without names of hosts.
pub(crate) fn cause(error: &ClientError) -> String {
    match error {
        ClientError::Resolve { reason, .. } => {
            format!("could not resolve hostname: {}", one_line(reason))
        }
        ClientError::Connect { reason, .. } => reason.clone(),
        ClientError::HostKey => "host key verification failed".to_owned(),
        ClientError::Denied { methods, .. } => {
            format!("permission denied ({})", one_line(methods.join(",")))
        }
        ClientError::Closed(_) | ClientError::Ended { reason: None, .. } => {
            "connection closed".to_owned()
        }
        ClientError::Ended {
            reason: Some(reason),
            ..
        } => one_line(&*escape::system_words(&reason.to_string())),
        ClientError::TimedOut(_) => "timed out before the login".to_owned(),
        ClientError::Handshake { error, .. } | ClientError::Lost { error, .. } => lost(error),
        ClientError::System { what, error } => {
            let reason = error.to_string();
            format!("{what}: {}", escape::system_words(&reason))
        }
        ClientError::Refused(text) => one_line(text.lines().next().unwrap_or_default()),
        ClientError::Said => "connection failed".to_owned(),
    }
}

fn lost(error: &driver::DriverError) -> String {
    let text = error.to_string();
    let text = escape::system_words(&text);
    one_line(text.lines().next().unwrap_or_default())
}

/// The exit status of a run: that of the worst host, the highest.
pub(crate) fn worst<'o>(outcomes: impl IntoIterator<Item = &'o HostOutcome>) -> i32 {
    let weights = outcomes.into_iter().map(HostOutcome::weight);
    weights.max().unwrap_or(0).clamp(0, STATUS_FAILED)
}

/// The summary of failures: one line for each cause, the most frequent first.
pub(crate) fn causes<'n>(failed: impl IntoIterator<Item = (&'n str, &'n str)>) -> Vec<String> {
    let mut by_cause: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, cause) in failed {
        by_cause.entry(cause).or_default().push(name);
    }
    let mut groups: Vec<(&str, Vec<&str>)> = by_cause.into_iter().collect();
    groups.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    let line = |(cause, names): (&str, Vec<&str>)| {
        let count = match names.len() {
            1 => String::new(),
            count => format!(" ({count})"),
        };
        format!("  {cause}{count}: {}", ranges::fold(names))
    };
    groups.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_ends_with_the_highest_status() {
        let outcomes = [
            HostOutcome::exit(0),
            HostOutcome::exit(3),
            HostOutcome::exit(1),
        ];
        assert_eq!(worst(&outcomes), 3);
        assert_eq!(
            worst(&[HostOutcome::exit(3), HostOutcome::failed("x")]),
            STATUS_FAILED
        );
        assert_eq!(worst(&[]), 0);
    }

    #[test]
    fn like_causes_are_one_line() {
        let failed = [
            ("n1", "exit 1"),
            ("n7", "Connection refused"),
            ("n2", "exit 1"),
            ("n3", "exit 1"),
        ];
        assert_eq!(
            causes(failed),
            ["  exit 1 (3): n[1-3]", "  Connection refused: n7"]
        );
    }
}

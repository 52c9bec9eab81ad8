//! The `ls -l` line of each entry in a NAME (OpenSSH's ls_file), with a cache of user and group
//! names.

use std::collections::BTreeMap;

use crate::attributes::mode;
use sys::fs::Info;
use sys::time::LocalTime;

/// Maximum number of cached names of each kind.
const MAX_NAMES: usize = 4096;
/// Age from which a file is shown with its year instead of the time: half a year, in seconds.
const RECENT_SECONDS: i64 = 365 * 24 * 3600 / 2;

/// A cache of user and group names.
#[derive(Debug, Default)]
pub(super) struct Names {
    users: BTreeMap<u32, String>,
    groups: BTreeMap<u32, String>,
}

impl Names {
    /// Returns the user's name, or the number.
    pub(super) fn user(&mut self, uid: u32) -> &str {
        if self.users.len() >= MAX_NAMES {
            self.users.clear();
        }
        self.users.entry(uid).or_insert_with(|| {
            let found = sys::users::by_uid(uid).ok().flatten();
            found.map_or_else(|| uid.to_string(), |user| user.name)
        })
    }

    /// Returns the group's name, or the number.
    pub(super) fn group(&mut self, gid: u32) -> &str {
        if self.groups.len() >= MAX_NAMES {
            self.groups.clear();
        }
        self.groups.entry(gid).or_insert_with(|| {
            let found = sys::users::group_by_gid(gid).ok().flatten();
            found.map_or_else(|| gid.to_string(), |group| group.name)
        })
    }

    /// `-rw-r--r--    1 root     root         1234 Jan  1 12:34 name`.
    pub(super) fn line(&mut self, name: &[u8], info: &Info) -> Vec<u8> {
        let user = self.user(info.uid).to_owned();
        let group = self.group(info.gid);
        let mut line = format!(
            "{} {:3} {user:<8} {group:<8} {:8} {} ",
            mode::letters(info.mode),
            info.links,
            info.size,
            date(info.modified.seconds)
        )
        .into_bytes();
        line.extend_from_slice(name);
        line
    }
}

fn date(seconds: i64) -> String {
    let now = i64::try_from(sys::time::realtime_seconds()).unwrap_or(i64::MAX);
    let at = LocalTime::from_seconds(seconds);
    let recent = seconds <= now && now.saturating_sub(seconds) < RECENT_SECONDS;
    let last = if recent {
        format!("{:02}:{:02}", at.hour, at.minute)
    } else {
        format!("{:5}", at.year)
    };
    format!("{} {:2} {last}", at.month_name(), at.day)
}

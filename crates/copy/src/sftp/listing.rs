//! `ls`: entries in columns or one a line.

use sftp::Attributes;
use sftp::attributes::mode;
use sys::time::LocalTime;
use transfer::glob::Match;
use transfer::remote::Entry;
use transfer::text;

use super::command::LsFlags;

/// Half a year, seconds: older files show their year.
const RECENT_SECONDS: u64 = 365 * 24 * 60 * 60 / 2;

/// One thing to show.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    /// As it is named, below where we are.
    pub(super) name: Vec<u8>,
    pub(super) attributes: Attributes,
}

/// Entries of a directory as they are shown.
pub(super) fn of_directory(entries: Vec<Entry>, prefix: &[u8], flags: LsFlags) -> Vec<Shown> {
    let mut shown: Vec<Shown> = entries
        .into_iter()
        .filter(|entry| flags.all || entry.name.first() != Some(&b'.'))
        .map(|entry| Shown {
            name: match prefix {
                b"" => entry.name,
                prefix => transfer::plan::joined(prefix, &entry.name),
            },
            attributes: entry.attributes,
        })
        .collect();
    sort(&mut shown, flags);
    shown
}

/// Sorts as the flags say.
pub(super) fn sort(shown: &mut [Shown], flags: LsFlags) {
    if flags.unsorted {
        return;
    }
    let time = |each: &Shown| each.attributes.times.map_or(0, |times| times.modified);
    let size = |each: &Shown| each.attributes.size.unwrap_or(0);
    if flags.by_time {
        shown.sort_by_key(|each| std::cmp::Reverse(time(each)));
    } else if flags.by_size {
        shown.sort_by_key(|each| std::cmp::Reverse(size(each)));
    } else {
        shown.sort_by(|one, other| one.name.cmp(&other.name));
    }
    if flags.reverse {
        shown.reverse();
    }
}

fn time_text(attributes: &Attributes) -> String {
    let Some(times) = attributes.times else {
        return "            ".to_owned();
    };
    let at = LocalTime::from_seconds(i64::from(times.modified));
    let age = sys::time::realtime_seconds().abs_diff(u64::from(times.modified));
    let (month, day) = (at.month_name(), at.day);
    match age < RECENT_SECONDS {
        true => format!("{month} {day:>2} {:02}:{:02}", at.hour, at.minute),
        false => format!("{month} {day:>2}  {}", at.year),
    }
}

/// A line of `ls -l`.
pub(super) fn long_line(
    each: &Shown,
    flags: LsFlags,
    names: &dyn Fn(u32, bool) -> String,
) -> String {
    let attributes = &each.attributes;
    let owner = attributes.owner.unwrap_or_default();
    let (user, group) = match flags.numeric {
        true => (owner.uid.to_string(), owner.gid.to_string()),
        false => (names(owner.uid, false), names(owner.gid, true)),
    };
    let size = attributes.size.unwrap_or(0);
    let size = match flags.units {
        true => crate::units::scaled(size),
        false => size.to_string(),
    };
    format!(
        "{}    ? {user:<8} {group:<8} {size:>8} {} {}",
        mode::letters(attributes.permissions.unwrap_or(0)),
        time_text(attributes),
        text::name(&each.name)
    )
}

/// Names in as many columns as a line holds, where each has room for `cell` characters.
pub(super) fn columns(names: &[String], width: usize, cell: usize) -> String {
    let longest = names.iter().map(|name| name.chars().count()).max();
    let Some(longest) = longest else {
        return String::new();
    };
    let longest = longest.max(cell);
    let columns = (width / (longest + 2)).max(1);
    let space = (width / columns).min(width);
    let mut out = String::new();
    for row in names.chunks(columns) {
        for name in row {
            out.push_str(&format!("{name:<space$}"));
        }
        out.push('\n');
    }
    out
}

/// The room for each name of what a pattern came to: OpenSSH's columns are as wide as the whole
/// paths, though it shows these below where we are.
pub(super) fn cell_of_matches(matches: &[Match]) -> usize {
    let each = matches
        .iter()
        .map(|each| each.path.len() + usize::from(each.is_directory()));
    each.max().unwrap_or(0)
}

/// What a pattern came to, below where we are; directories have a slash at the end.
pub(super) fn of_matches(matches: &[(Match, Attributes)], here: &[u8]) -> Vec<Shown> {
    matches
        .iter()
        .map(|(each, attributes)| Shown {
            name: match each.is_directory() {
                true => [below(&each.path, here), b"/"].concat(),
                false => below(&each.path, here).to_vec(),
            },
            attributes: *attributes,
        })
        .collect()
}

/// A path without the directory that we are in; the whole path where that is none.
pub(super) fn below<'p>(path: &'p [u8], here: &[u8]) -> &'p [u8] {
    match path.strip_prefix(here) {
        Some([]) | None => path,
        Some(_) if here.is_empty() => path,
        Some(rest) if here.last() == Some(&b'/') => rest,
        Some([b'/', rest @ ..]) if !rest.is_empty() => rest,
        Some(_) => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fill_the_line() {
        let names: Vec<String> = ["aa", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(columns(&names, 8, 0), "aa  b   \nc   \n");
        assert_eq!(columns(&names, 2, 0), "aa\nb \nc \n");
        assert_eq!(columns(&names[1..], 16, 6), "b       c       \n");
    }

    #[test]
    fn what_a_pattern_came_to_is_marked_and_has_room_for_whole_paths() {
        let directory = Attributes::with_permissions(mode::DIRECTORY);
        let each = |path: &[u8], attributes| Match {
            path: path.to_vec(),
            attributes: Some(attributes),
            listed: None,
        };
        let found = [each(b"/d/e", directory), each(b"/d/f1", Attributes::NONE)];
        assert_eq!(cell_of_matches(&found), 5);
        let with = found.map(|each| (each.clone(), each.attributes.unwrap()));
        let shown = of_matches(&with, b"/d");
        let names: Vec<&[u8]> = shown.iter().map(|each| each.name.as_slice()).collect();
        assert_eq!(names, [b"e/".as_slice(), b"f1"]);
    }

    #[test]
    fn paths_are_shown_below_where_we_are() {
        assert_eq!(below(b"/a/b", b"/a"), b"b");
        assert_eq!(below(b"/a/b", b""), b"/a/b");
        assert_eq!(below(b"/ab", b"/a"), b"/ab");
        assert_eq!(below(b"/a", b"/"), b"a");
        assert_eq!(below(b"/a", b"/a"), b"/a");
    }
}

//! What `ps` shows of the session process: `sshd-session: USER`, as of OpenSSH 10.6's. Scripts and Debian's
//! `ssh-session-cleanup` read it.

use privsep::roles;

/// Shows in `ps` whom this process serves, as OpenSSH 10.6 does: `sshd-session: USER`, and with the terminals of its
/// sessions, from the first of these on, `sshd-session: USER@pts/0,pts/1` or `sshd-session: USER@notty`.
pub(super) fn show(user: &str, terminals: Option<&[String]>) {
    let _ = sys::process::set_title(&title(user, terminals));
}

fn title(user: &str, terminals: Option<&[String]>) -> String {
    let mut title = format!("{}: {user}", roles::PROCESS_NAME);
    let Some(terminals) = terminals else {
        return title;
    };
    title.push('@');
    if terminals.is_empty() {
        title.push_str("notty");
    }
    for (number, path) in terminals.iter().enumerate() {
        title.push_str(if number == 0 { "" } else { "," });
        title.push_str(path.strip_prefix("/dev/").unwrap_or(path));
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_names_the_terminals() {
        let terminals = ["/dev/pts/0", "/dev/pts/17"].map(str::to_owned);
        assert_eq!(title("ada", None), "sshd-session: ada");
        assert_eq!(title("ada", Some(&[])), "sshd-session: ada@notty");
        let both = "sshd-session: ada@pts/0,pts/17";
        assert_eq!(title("ada", Some(&terminals)), both);
        let longest = title(&"x".repeat(32), Some(&terminals[1..]));
        let room = ["fulmar", roles::ROLE_SESSION, roles::TITLE_ROOM].map(str::len);
        assert!(longest.len() <= room.iter().sum::<usize>());
    }
}

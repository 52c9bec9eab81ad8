use super::*;

fn files(name: &str) -> (PathBuf, RecordFiles) {
    let directory = std::env::temp_dir().join(format!("fulmar-sys-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir(&directory).unwrap();
    let files = RecordFiles {
        utmp: directory.join("utmp"),
        wtmp: directory.join("wtmp"),
        btmp: directory.join("btmp"),
        lastlog: directory.join("lastlog"),
    };
    (directory, files)
}

fn login(line: &str) -> LoginRecord<'_> {
    LoginRecord {
        user: "ann",
        uid: 3,
        line,
        host: "peer.example",
        address: Some("192.0.2.7".parse().unwrap()),
        pid: 4711,
        time: (1_763_759_523, 42),
    }
}

// The records are those of glibc, which all programs of a system with sessions use.
#[cfg(target_env = "gnu")]
#[test]
fn the_layout_is_that_of_libc() {
    use std::mem::offset_of;
    assert_eq!(size_of::<libc::utmpx>(), layout::RECORD_LEN);
    assert_eq!(offset_of!(libc::utmpx, ut_pid), PID);
    assert_eq!(offset_of!(libc::utmpx, ut_line), LINE);
    assert_eq!(offset_of!(libc::utmpx, ut_id), ID);
    assert_eq!(offset_of!(libc::utmpx, ut_user), NAME);
    assert_eq!(offset_of!(libc::utmpx, ut_host), HOST);
    assert_eq!(offset_of!(libc::utmpx, ut_session), layout::SESSION);
    assert_eq!(offset_of!(libc::utmpx, ut_tv), layout::SECONDS);
    assert_eq!(offset_of!(libc::utmpx, ut_addr_v6), layout::ADDRESS);
    assert_eq!(libc::USER_PROCESS, USER_PROCESS);
    assert_eq!(libc::DEAD_PROCESS, DEAD_PROCESS);
    assert_eq!(libc::LOGIN_PROCESS, LOGIN_PROCESS);
}

#[test]
fn files_that_do_not_exist_are_not_made() {
    let (directory, files) = files("loginrec-none");
    files.login(&login("pts/1")).unwrap();
    files.logout("pts/1", 4711, (1, 0)).unwrap();
    files.failure(&login("ssh:notty")).unwrap();
    assert_eq!(files.last_login(3).unwrap(), None);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_session_comes_and_goes() {
    use std::os::unix::fs::PermissionsExt;
    let (directory, files) = files("loginrec");
    for path in [&files.utmp, &files.wtmp, &files.btmp, &files.lastlog] {
        std::fs::write(path, "").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660)).unwrap();
    }
    files.login(&login("pts/1")).unwrap();
    files.login(&login("pts/2")).unwrap();
    files.logout("pts/1", 4711, (1_763_759_600, 0)).unwrap();
    let utmp = std::fs::read(&files.utmp).unwrap();
    let wtmp = std::fs::read(&files.wtmp).unwrap();
    assert_eq!(utmp.len(), 2 * layout::RECORD_LEN);
    assert_eq!(wtmp.len(), 3 * layout::RECORD_LEN);
    let kinds = utmp.chunks(layout::RECORD_LEN);
    let kinds = kinds.map(|slot| i16::from_ne_bytes([slot[0], slot[1]]));
    assert_eq!(kinds.collect::<Vec<_>>(), [DEAD_PROCESS, USER_PROCESS]);
    assert_eq!(c_text(&utmp[NAME..NAME + NAME_LEN]), "");
    let second = &utmp[layout::RECORD_LEN..];
    assert_eq!(c_text(&second[NAME..NAME + NAME_LEN]), "ann");
    assert_eq!(c_text(&second[LINE..LINE + LINE_LEN]), "pts/2");
    assert_eq!(
        &second[layout::ADDRESS..layout::ADDRESS + 4],
        [192, 0, 2, 7]
    );
    // A terminal's slot is reused.
    files.login(&login("pts/1")).unwrap();
    assert_eq!(
        std::fs::metadata(&files.utmp).unwrap().len(),
        utmp.len() as u64
    );
    assert_eq!(
        files.last_login(3).unwrap(),
        Some(LastLogin {
            seconds: 1_763_759_523,
            line: "pts/1".into(),
            host: "peer.example".into()
        })
    );
    assert_eq!(files.last_login(2).unwrap(), None);
    assert_eq!(files.last_login(u32::MAX).unwrap(), None);
    files.failure(&login("ssh:notty")).unwrap();
    std::fs::set_permissions(&files.btmp, std::fs::Permissions::from_mode(0o664)).unwrap();
    assert!(files.failure(&login("ssh:notty")).is_err());
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn long_and_odd_names_are_cut() {
    let long = "ü".repeat(300);
    let mut odd = login(&long);
    odd.user = &long;
    odd.host = &long;
    let record = record(USER_PROCESS, &odd);
    assert_eq!(record[HOST + HOST_LEN], 0);
    assert_eq!(id_of("pts/12"), "s/12");
    assert_eq!(id_of("tty1"), "1");
    assert_eq!(id_of("é"), "é");
}

#[test]
fn a_torn_record_is_written_over() {
    let (directory, files) = files("loginrec-torn");
    std::fs::write(&files.wtmp, vec![1; layout::RECORD_LEN + 17]).unwrap();
    files.login(&login("pts/1")).unwrap();
    let len = std::fs::metadata(&files.wtmp).unwrap().len();
    assert_eq!(len, 2 * layout::RECORD_LEN as u64);
    std::fs::remove_dir_all(directory).unwrap();
}

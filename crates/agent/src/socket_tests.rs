use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use super::*;

struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fulmar-as-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn owner(&self) -> SocketOwner<'_> {
        SocketOwner {
            user: "somebody",
            uid: 4711,
            home: self.0.to_str().unwrap(),
            pid: 12,
            program: "local",
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn place(text: &str) -> AgentPlace {
    AgentPlace::parse(text).unwrap()
}

#[test]
fn a_users_socket_lies_in_the_directory_and_a_shared_one_in_its_own() {
    let home = Home::new("places");
    let (_, socket) = listen(&place("user:a/%u/%U"), &home.owner(), bind).unwrap();
    let folder = home.0.join("a/somebody/4711");
    assert_eq!(socket.path.parent().unwrap(), folder);
    let mode = fs::metadata(&folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let name_of_socket = name(&socket.path);
    let parts: Vec<&str> = name_of_socket.split('.').collect();
    assert_eq!(
        (parts[0], parts[2], parts[3], parts[1].len(), parts[4].len()),
        ("s", "local", "12", 10, 10)
    );
    socket.clone().remove();
    assert!(!socket.path.exists() && folder.exists());

    let shared = place(&format!("shared:{}", home.0.display()));
    let (_, socket) = listen(&shared, &home.owner(), bind).unwrap();
    assert_eq!(name(&socket.path), "agent.local.12");
    let folder = socket.path.parent().unwrap().to_owned();
    assert!(name(&folder).starts_with("ssh-") && name(&folder).len() == 16);
    socket.remove();
    assert!(!folder.exists());

    for wrong in ["/tmp", "shared:tmp", "here:/tmp", ""] {
        assert_eq!(AgentPlace::parse(wrong), None, "{wrong}");
    }
    assert!(listen(&place("user:%x"), &home.owner(), bind).is_err());
}

#[test]
fn only_old_sockets_without_a_listener_are_stale() {
    let home = Home::new("stale");
    let sockets = place("user:sockets");
    let make = || listen(&sockets, &home.owner(), bind).unwrap();
    let (alive, alive_socket) = make();
    let (dead, dead_socket) = make();
    let (recent, recent_socket) = make();
    drop((dead, recent));
    let foreign = home.0.join("sockets/s.otherhost__.agent.1.x");
    drop(bind(&foreign).unwrap());
    let file = home.0.join("sockets/s.file");
    fs::write(&file, "").unwrap();
    let two_hours = SystemTime::now() - Duration::from_secs(7200);
    for path in [&alive_socket.path, &dead_socket.path, &foreign, &file] {
        age(path, two_hours);
    }
    remove_stale(&place("shared:/tmp"), &home.owner(), true);
    remove_stale(&sockets, &home.owner(), false);
    assert!(alive_socket.path.exists() && recent_socket.path.exists());
    assert!(foreign.exists() && file.exists() && !dead_socket.path.exists());
    remove_stale(&sockets, &home.owner(), true);
    assert!(!foreign.exists() && file.exists() && alive_socket.path.exists());
    drop(alive);
}

/// Sets the time of a file that cannot be opened.
fn age(path: &Path, time: SystemTime) {
    let seconds = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let status = std::process::Command::new("touch")
        .args(["-h", "-d", &format!("@{seconds}")])
        .arg(path)
        .status()
        .unwrap();
    assert!(status.success());
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    UnixListener::bind(path)
}

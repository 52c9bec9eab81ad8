//! The sandbox of a process that reaches tokens (smart cards, HSMs, TPMs) through a PKCS #11 library.
//!
//! Like [`super::provider()`], it loads foreign code and uses devices. Beyond that it listens to the kernel's
//! reports of devices, and reads and writes the places where tokens of software keep their objects. If this
//! system has a daemon for tokens when the process starts ([`has_daemon`]: pcscd, p11-kit and others), it
//! connects to local sockets with a path: to all that the user may reach, for neither seccomp nor Landlock's
//! ABI 6 tells one path from another. It has no network, starts no program or process, and sends no signal
//! to others. A forbidden call fails as if the kernel did not know it (ENOSYS).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use landlock::{ABI, AccessFs};

use super::bpf::BpfProgram;
use super::calls::{Call, FADVISE, LOCKS_HERE, MORE_HERE};
use super::files::Wall;
use super::filter::{CallList, UNKNOWN};
use super::provider::{
    self, CODE, DESCRIPTOR, READ, library_calls, own_alone, wall, with_neighbours,
};

/// Files and directories that may be read: the configuration of token libraries, and what they find
/// devices, users and times with.
const CONFIGURATION: &[&str] = &[
    "/etc/softhsm",
    "/etc/softhsm2.conf",
    "/etc/kryoptic",
    "/etc/opensc",
    "/etc/pkcs11",
    "/etc/tpm2-tss",
    "/etc/tpm2_pkcs11",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/openssl.cnf",
    "/etc/crypto-policies",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
    "/etc/localtime",
    "/run/udev",
    "/run/pcscd",
    "/proc/self",
];
/// Below the home directory, to be read.
const HOME_CONFIGURATION: &[&str] = &[
    ".config/softhsm2",
    ".config/kryoptic",
    ".config/opensc",
    ".config/pkcs11",
    ".pkcs11",
];
/// Places of objects, to be read and written.
const STORES: &[&str] = &["/var/lib/softhsm", "/var/lib/tpm2_pkcs11", "/dev/shm"];
/// The same below the home directory.
const HOME_STORES: &[&str] = &[".cache/opensc", ".tpm2_pkcs11", ".pki/nssdb", ".softhsm"];
/// Variables that name such a place.
const STORE_VARIABLES: &[&str] = &["TPM2_PKCS11_STORE"];
/// Devices that may be opened for writing and used with any ioctl.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
    "/dev/bus/usb",
    "/dev/tpmrm0",
];

/// Sockets and directories of daemons for tokens: pcscd, and nShield's.
const DAEMONS: &[&str] = &["/run/pcscd/pcscd.comm", "/opt/nfast/sockets"];
/// Variables that name a daemon's socket.
const DAEMON_VARIABLES: &[&str] = &["PCSCLITE_CSOCK_NAME", "P11_KIT_SERVER_ADDRESS"];
/// Variables that say how a TPM is reached, and the word for its daemon (tpm2-abrmd, by D-Bus).
const TPM_VARIABLES: &[&str] = &["TPM2_PKCS11_TCTI", "TSS2_TCTI"];
const TPM_DAEMON: &[u8] = b"tabrmd";
/// The socket of p11-kit's server, below XDG_RUNTIME_DIR.
const P11_KIT_SOCKET: &str = "p11-kit/pkcs11";

/// Limit on open descriptors.
const MAX_OPEN_FILES: u64 = 256;
/// Longest configuration of a token of software that is read for the places of its objects, bytes.
const MAX_CONFIGURATION_BYTES: u64 = 64 * 1024;

/// Calls beyond those of [`super::provider()`]: reports of devices, and changes of files within the rules.
const MORE: &[Call] = &[
    libc::SYS_bind,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_pipe2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_pwrite64,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fchmod,
    libc::SYS_fstatfs,
    libc::SYS_statfs,
    libc::SYS_umask,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_renameat2,
    FADVISE,
    libc::SYS_getgroups,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_dup3,
];
/// fcntl commands beyond those of [`super::provider()`]: locks of files.
pub(super) const LOCKS: &[i32] = &[
    libc::F_DUPFD,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
];

/// What a process that reaches tokens may call with any arguments beyond [`library_calls`].
pub(super) fn more() -> Vec<Call> {
    [MORE, &MORE_HERE.concat()].concat()
}

/// Puts this process, which must have one thread, into the sandbox; `library` is the one that it will
/// load. Returns how far the kernel restricts access to files; calls are filtered on every kernel.
///
/// # Errors
/// The kernel's error; then end the process.
pub fn token(library: &Path) -> io::Result<Wall> {
    provider::begin(MAX_OPEN_FILES)?;
    let wall = wall(rules(library))?;
    provider::finish(program(has_daemon())?)?;
    Ok(wall)
}

/// The rules for files: each path with its rights.
fn rules(library: &Path) -> Vec<(PathBuf, landlock::BitFlags<AccessFs>)> {
    let read = AccessFs::from_read(ABI::V5) & !AccessFs::Execute;
    let device = read | AccessFs::WriteFile | AccessFs::IoctlDev;
    let store = read
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir;
    let mut rules = Vec::new();
    let mut add = |paths: &[&str], rights| {
        rules.extend(paths.iter().map(|path| (PathBuf::from(path), rights)));
    };
    add(CODE, read);
    add(READ, read);
    add(CONFIGURATION, read);
    add(DEVICES, device);
    add(STORES, store);
    if let Some(home) = variable("HOME").map(PathBuf::from) {
        rules.extend(
            HOME_CONFIGURATION
                .iter()
                .map(|path| (home.join(path), read)),
        );
        rules.extend(HOME_STORES.iter().map(|path| (home.join(path), store)));
    }
    let stores = STORE_VARIABLES.iter().filter_map(|name| variable(name));
    rules.extend(stores.map(|path| (PathBuf::from(path), store)));
    if let Some(named) = variable("SOFTHSM2_CONF").map(PathBuf::from) {
        rules.extend(softhsm_directory(&named).map(|path| (path, store)));
        rules.push((named, read));
    }
    let kryoptic = kryoptic_configuration(variable);
    rules.extend(kryoptic_stores(&kryoptic).map(|path| (path, store)));
    rules.push((kryoptic, read));
    if let Ok(entries) = std::fs::read_dir("/dev") {
        let devices = entries.flatten().map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("hidraw")
        });
        rules.extend(devices.map(|path| (path, device)));
    }
    rules.extend(
        with_neighbours(library)
            .into_iter()
            .map(|path| (path, read)),
    );
    rules
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// True if a library may need to connect to a daemon: its socket exists, or a variable names one.
fn has_daemon() -> bool {
    let is_named = |name: &&str| variable(name).is_some();
    let needs_tpm_daemon = |name: &&str| {
        let value = variable(name).unwrap_or_default();
        value
            .as_bytes()
            .windows(TPM_DAEMON.len())
            .any(|part| part == TPM_DAEMON)
    };
    let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    DAEMONS.iter().any(|path| Path::new(path).exists())
        || DAEMON_VARIABLES.iter().any(is_named)
        || TPM_VARIABLES.iter().any(needs_tpm_daemon)
        || runtime.is_some_and(|folder| folder.join(P11_KIT_SOCKET).exists())
}

fn configuration_text(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    let read = file.take(MAX_CONFIGURATION_BYTES).read_to_string(&mut text);
    read.ok().map(|_| text)
}

/// The directory of tokens that a configuration of SoftHSM names.
fn softhsm_directory(configuration: &Path) -> Option<PathBuf> {
    configuration_text(configuration)?
        .lines()
        .filter_map(|line| line.split_once('='))
        .find(|(key, _)| key.trim() == "directories.tokendir")
        .map(|(_, path)| PathBuf::from(path.trim()))
}

/// Where kryoptic looks for its configuration; a path that ends with `.sql` is a database itself.
fn kryoptic_configuration(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    const NAME: &str = "kryoptic/token.conf";
    if let Some(named) = variable("KRYOPTIC_CONF") {
        return named.into();
    }
    if let Some(folder) = variable("XDG_CONFIG_HOME") {
        return Path::new(&folder).join(NAME);
    }
    match variable("HOME") {
        Some(home) => Path::new(&home).join(".config").join(NAME),
        None => Path::new("/etc").join(NAME),
    }
}

/// The directories of the databases that a configuration of kryoptic names: SQLite makes files beside
/// a database. Of a database in the home directory, above it, or in a directory at the top, the file alone.
fn kryoptic_stores(configuration: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let mut named = Vec::new();
    if configuration.extension().is_some_and(|end| end == "sql") {
        named.push(configuration.to_owned());
    } else if let Some(text) = configuration_text(configuration) {
        let values = text.lines().filter_map(|line| line.split_once('='));
        let values = values.filter(|(key, _)| key.trim() == "dbargs");
        named.extend(values.filter_map(|(_, value)| database(value.trim())));
    }
    let home = variable("HOME").map(PathBuf::from);
    named.into_iter().map(move |path| {
        let folder = match path.is_dir() {
            true => Some(path.as_path()),
            false => path.parent(),
        };
        let is_private = |folder: &&Path| {
            let is_low = folder.components().count() > 2;
            is_low && !home.iter().any(|home| home.starts_with(folder))
        };
        folder
            .filter(is_private)
            .map_or(path.clone(), Path::to_owned)
    })
}

/// The absolute path in a value of `dbargs`: `"PATH"`, or `"configDir=PATH"` with more after a blank.
fn database(value: &str) -> Option<PathBuf> {
    let quote = value
        .chars()
        .next()
        .filter(|first| "\"'".contains(*first))?;
    let (text, _) = value.strip_prefix(quote)?.split_once(quote)?;
    let path = match text.split_once("configDir=") {
        Some((_, rest)) => rest.split(' ').next()?.trim_matches(['\'', '"']),
        None => text,
    };
    let path = path.strip_prefix("sql:").unwrap_or(path);
    path.starts_with('/').then(|| path.into())
}

fn program(connects: bool) -> io::Result<BpfProgram> {
    let mut calls = CallList::new(UNKNOWN, &[library_calls(), more()].concat())?;
    if connects {
        calls.sockets(&[libc::AF_UNIX])?;
        calls.any(libc::SYS_connect)?;
    } else {
        calls.sockets(&[])?;
    }
    // One end of a pair of datagram sockets could send to any path.
    let streams = [0, libc::SOCK_CLOEXEC, libc::SOCK_NONBLOCK];
    let streams = streams.map(|flag| libc::SOCK_STREAM | flag);
    calls.with_one_of(libc::SYS_socketpair, 1, &streams)?;
    own_alone(&mut calls, &[DESCRIPTOR, LOCKS, LOCKS_HERE].concat())?;
    calls.finish()
}

#[cfg(test)]
mod tests {
    use super::super::calls::FCNTL;
    use super::super::filter::{clone_flags, word};
    use super::super::provider::FORBIDDEN;
    use super::*;
    use crate::process;

    fn allows(number: Call, arguments: [u64; 6]) -> bool {
        allows_if(true, number, arguments)
    }

    fn allows_if(connects: bool, number: Call, arguments: [u64; 6]) -> bool {
        let program = program(connects).unwrap();
        super::super::filter::allows(&program, UNKNOWN, number, arguments)
    }

    #[test]
    fn without_a_daemon_for_tokens_it_connects_to_nothing() {
        let family = |value: i32| [u64::from(word(value)), 3, 15, 0, 0, 0];
        assert!(allows(libc::SYS_connect, [0; 6]));
        assert!(!allows_if(false, libc::SYS_connect, [0; 6]));
        assert!(!allows_if(false, libc::SYS_socket, family(libc::AF_UNIX)));
        // Reports of devices come without it.
        assert!(allows_if(false, libc::SYS_socket, family(libc::AF_NETLINK)));
        let pair = |kind: i32| [1, u64::from(word(kind)), 0, 0, 0, 0];
        assert!(allows_if(
            false,
            libc::SYS_socketpair,
            pair(libc::SOCK_STREAM)
        ));
        assert!(!allows(libc::SYS_socketpair, pair(libc::SOCK_DGRAM)));
    }

    #[test]
    fn a_token_library_has_no_network_and_starts_nothing() {
        let first = |value: i32| [u64::from(word(value)), 1, 0, 0, 0, 0];
        assert!(allows(libc::SYS_socket, first(libc::AF_UNIX)));
        let netlink = |protocol: i32| {
            let family = u64::from(word(libc::AF_NETLINK));
            allows(
                libc::SYS_socket,
                [family, 3, u64::from(word(protocol)), 0, 0, 0],
            )
        };
        assert!(netlink(libc::NETLINK_KOBJECT_UEVENT));
        assert!(!netlink(libc::NETLINK_ROUTE) && !netlink(libc::NETLINK_USERSOCK));
        for family in [
            libc::AF_INET,
            libc::AF_INET6,
            libc::AF_VSOCK,
            libc::AF_PACKET,
        ] {
            assert!(!allows(libc::SYS_socket, first(family)), "{family}");
        }
        for number in FORBIDDEN {
            assert!(!allows(number, [0; 6]), "{number}");
        }
        assert!(allows(libc::SYS_clone, clone_flags(libc::CLONE_THREAD)));
        assert!(!allows(libc::SYS_clone, clone_flags(libc::SIGCHLD)));
        let second = |value: i32| [3, u64::from(word(value)), 0, 0, 0, 0];
        assert!(allows(FCNTL, second(libc::F_SETLKW)));
        assert!(!allows(FCNTL, second(libc::F_SETOWN)));
    }

    #[test]
    fn the_databases_of_kryoptic_are_read_from_its_configuration() {
        let home = |name: &str| (name == "HOME").then(|| "/home/mia".into());
        let found = kryoptic_configuration(home);
        assert_eq!(found, Path::new("/home/mia/.config/kryoptic/token.conf"));
        let both = |name: &str| match name {
            "KRYOPTIC_CONF" => Some("/x/conf".into()),
            _ => Some("/y".into()),
        };
        assert_eq!(kryoptic_configuration(both), Path::new("/x/conf"));
        for (value, path) in [
            ("\"/x/token.sql\"", Some("/x/token.sql")),
            ("'/x/a b.sql' # the first", Some("/x/a b.sql")),
            ("\"configDir=/etc/pki/nssdb\"", Some("/etc/pki/nssdb")),
            ("\"configDir='sql:/etc/pki' flags=x\"", Some("/etc/pki")),
            ("\"token.sql\"", None),
            ("/x/token.sql", None),
            ("\"", None),
        ] {
            assert_eq!(database(value), path.map(PathBuf::from), "{value}");
        }
        let folder = std::env::temp_dir().join(format!("kryoptic-{}", process::pid()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("token.conf");
        let own = std::env::var("HOME").unwrap_or_default();
        let text = format!(
            "[[slots]]\nslot = 1\ndbtype = \"sqlite\"\ndbargs = \"/x/y/one.sql\"\n\
             [[slots]]\nslot = 2\ndbargs=\"{own}/two.sql\"\n"
        );
        std::fs::write(&file, text).unwrap();
        let found: Vec<PathBuf> = kryoptic_stores(&file).collect();
        std::fs::remove_dir_all(&folder).unwrap();
        // Not the whole home directory.
        let alone = Path::new(&own).join("two.sql");
        assert_eq!(found, [PathBuf::from("/x/y"), alone]);
        let top = kryoptic_stores(Path::new("/x/token.sql"));
        assert_eq!(top.collect::<Vec<_>>(), [PathBuf::from("/x/token.sql")]);
        let database = kryoptic_stores(Path::new("/x/y/token.sql"));
        assert_eq!(database.collect::<Vec<_>>(), [PathBuf::from("/x/y")]);
        assert_eq!(kryoptic_stores(Path::new("/nonexistent")).count(), 0);
    }

    #[test]
    fn the_directory_of_tokens_is_read_from_the_configuration() {
        let file = std::env::temp_dir().join(format!("softhsm2-{}.conf", process::pid()));
        std::fs::write(
            &file,
            "# tokens\ndirectories.tokendir = /x/tokens\nlog.level = INFO\n",
        )
        .unwrap();
        let found = softhsm_directory(&file);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(found, Some(PathBuf::from("/x/tokens")));
        assert_eq!(softhsm_directory(Path::new("/nonexistent")), None);
    }
}

//! Requests to a provider library in the confined process. The test executes its own binary as the
//! role; the provider is `token.c`, built with `cc`.

#[path = "../../keygen/tests/keygen/named.rs"]
mod named;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fido::{Enrollment, FidoError, Provider, RESIDENT, USER_PRESENCE, USER_VERIFICATION};
use keys::{KeyType, PrivateKey, Signature};

use named::{named, run_named};

/// Errno of a call that the filter refuses.
const ENOSYS: u8 = 38;
/// Errno of a descriptor that is not open for reading.
const EBADF: u8 = 9;
/// First argument of this program where it is the parent of a provider that prints.
const PRINTS: &str = "prints";
/// Errno of a file that the rules for files refuse.
const EACCES: u8 = 13;

type ProviderTest = fn(&Provider);

fn main() {
    if std::env::args()
        .nth(1)
        .is_some_and(|first| first == fido::ROLE)
    {
        std::process::exit(fido::main(Vec::new()));
    }
    if let [_, first, token] = std::env::args().collect::<Vec<_>>().as_slice()
        && first == PRINTS
    {
        let provider = Provider::new(token).unwrap();
        let key = made(&provider, "says", 0);
        provider.sign(&key, b"data", None).unwrap();
        std::process::exit(0);
    }
    // With variables of which one reaches the library.
    let is_set = ["FIDO_TEST", "OTHER_TEST"].map(|name| std::env::var_os(name).is_some());
    if is_set != [true; 2] {
        let again = std::env::args_os().skip(1);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(again)
            .env("FIDO_TEST", "1")
            .env("OTHER_TEST", "1");
        std::process::exit(command.status().unwrap().code().unwrap_or(101));
    }
    let folder = std::env::temp_dir().join(format!("fido-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let token = token(&folder);
    let provider = Provider::new(token.to_str().unwrap()).unwrap();
    let tests: &[(&str, ProviderTest)] = &[
        named!(keys_are_made_and_say_how),
        named!(a_pin_is_asked_for_by_the_token),
        named!(resident_keys_of_ssh_are_listed),
        named!(the_library_is_confined),
        named!(what_the_library_prints_controls_no_terminal),
        named!(a_library_that_fails_is_an_error),
    ];
    run_named(tests, |_, test: ProviderTest| test(&provider));
    let _ = std::fs::remove_dir_all(&folder);
}

fn token(folder: &Path) -> PathBuf {
    let path = folder.join("token.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/token.c");
    let file = |name: &str| folder.join(name).display().to_string();
    let built = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .arg(&path)
        .arg(format!("-DWAIT_FOR=\"{}\"", file("touched")))
        .arg(format!("-DPROBE=\"{}\"", file("probe")))
        .arg(source)
        .status()
        .expect("a C compiler");
    assert!(built.success());
    path
}

fn enrollment(application: &str, flags: u8) -> Enrollment<'_> {
    Enrollment {
        key_type: KeyType::SkEd25519,
        application,
        user: None,
        device: None,
        challenge: &[1; 32],
        flags,
        pin: None,
    }
}

fn made(provider: &Provider, name: &str, flags: u8) -> PrivateKey {
    let application = format!("ssh:{name}");
    provider
        .enroll(&enrollment(&application, flags))
        .unwrap()
        .key
}

fn keys_are_made_and_say_how(provider: &Provider) {
    let asked = Enrollment {
        user: Some("bob"),
        device: Some("/dev/x"),
        ..enrollment("ssh:name", USER_PRESENCE | RESIDENT)
    };
    let credential = provider.enroll(&asked).unwrap();
    let parts = credential.key.security_key().unwrap();
    assert_eq!(parts.application, b"ssh:name");
    assert_eq!(parts.handle, b"name");
    assert_eq!(parts.flags, USER_PRESENCE | RESIDENT);
    assert_eq!(credential.attestation.certificate, b"cert");
    assert_eq!(credential.attestation.signature, b"device=/dev/x;user=bob;");
    // A key that is there is replaced only by force.
    let there = enrollment("ssh:there", RESIDENT);
    let refused = provider.enroll(&there).unwrap_err();
    assert_eq!(refused, FidoError::CredentialExists);
    let forced = enrollment("ssh:there", RESIDENT | fido::FORCE);
    let key = provider.enroll(&forced).unwrap().key;
    assert_eq!(key.security_key().unwrap().flags, RESIDENT);
    let other = Enrollment {
        key_type: KeyType::SkEcdsaP256,
        ..enrollment("ssh:", 0)
    };
    assert_eq!(provider.enroll(&other).unwrap_err(), FidoError::Unsupported);
    let signature = provider.sign(&key, b"data", None).unwrap();
    let signature = Signature::from_blob(&signature).unwrap();
    assert_eq!(signature.algorithm.name(), "sk-ssh-ed25519@openssh.com");
}

fn a_pin_is_asked_for_by_the_token(provider: &Provider) {
    let mut asked = enrollment("ssh:pin", USER_VERIFICATION);
    assert_eq!(provider.enroll(&asked).unwrap_err(), FidoError::PinRequired);
    asked.pin = Some(b"wrong");
    assert_eq!(provider.enroll(&asked).unwrap_err(), FidoError::PinRequired);
    asked.pin = Some(b"1234");
    let key = provider.enroll(&asked).unwrap().key;
    let needs = provider.sign(&key, b"data", None).unwrap_err();
    assert_eq!(needs, FidoError::PinRequired);
    assert!(provider.sign(&key, b"data", Some(b"1234")).is_ok());
    assert!(provider.sign(&key, b"data", Some(b"12\x0034")).is_err());
}

fn resident_keys_of_ssh_are_listed(provider: &Provider) {
    let refused = provider.resident_keys(None, None).unwrap_err();
    assert_eq!(refused, FidoError::PinRequired);
    let keys = provider.resident_keys(None, Some(b"1234")).unwrap();
    let found: Vec<_> = keys
        .iter()
        .map(|key| {
            let application = key.key.security_key().unwrap().application;
            (application.to_vec(), key.user.len())
        })
        .collect();
    assert_eq!(found, [(b"ssh:".to_vec(), 0), (b"ssh:work".to_vec(), 32)]);
}

fn what_the_library_prints_controls_no_terminal(provider: &Provider) {
    let mut parent = Command::new(std::env::current_exe().unwrap());
    let ended = parent.args([PRINTS, provider.name()]).output().unwrap();
    assert!(ended.status.success());
    let text = String::from_utf8(ended.stderr).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("ssh-sk-helper: touch") && lines[0].ends_with(" it"));
    assert!(!text.contains('\x1b'), "{text}");
    assert_eq!(lines[1], "ssh-sk-helper: now");
}

fn the_library_is_confined(provider: &Provider) {
    let key = made(provider, "probe", USER_PRESENCE);
    let blob = provider.sign(&key, b"data", None).unwrap();
    // Name, signature, flags and counter: the signature's bytes are the results.
    let name = 4 + "sk-ssh-ed25519@openssh.com".len();
    let results = blob.get(name + 4..name + 17).unwrap();
    let [
        create,
        read,
        forbidden @ ..,
        reports,
        routes,
        typing,
        input,
        terminal,
        environment,
    ] = results
    else {
        panic!("{results:?}");
    };
    // Sockets of two families, a program, a signal, a process; another netlink socket, and input for
    // the terminal.
    assert_eq!(forbidden, [ENOSYS; 5]);
    assert_eq!([*reports, *routes, *typing], [0, ENOSYS, ENOSYS]);
    // It reads nothing from the terminal, and has the variables of its kind only.
    assert_eq!([*input, *terminal, *environment], [EBADF, 1, 1]);
    // The rules hold for the thread that makes them.
    let has_landlock = std::thread::spawn(|| sys::sandbox::deny_files().is_ok());
    if has_landlock.join().unwrap() {
        assert_eq!([*create, *read], [EACCES; 2]);
    } else {
        println!("skipped: this kernel has no Landlock");
    }
}

fn a_library_that_fails_is_an_error(provider: &Provider) {
    let gone = made(provider, "gone", 0);
    let error = provider.sign(&gone, b"data", None).unwrap_err();
    assert_eq!(error, FidoError::DeviceNotFound);
    let dies = made(provider, "dies", 0);
    let error = provider.sign(&dies, b"data", None).unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
    assert!(Provider::new("/nonexistent").is_err());
    let shell = Provider::new("/bin/sh").unwrap();
    let error = shell.sign(&gone, b"data", None).unwrap_err();
    assert!(
        error.to_string().contains("is not an OpenSSH FIDO library"),
        "{error}"
    );
    // A request that is cancelled ends although its token waits.
    let waits = made(provider, "wait", 0);
    let running = provider.start_signing(&waits, b"data", None).unwrap();
    let canceller = running.canceller().unwrap();
    sys::socket::shutdown(&canceller, sys::socket::ShutdownDirection::Both).unwrap();
    assert!(running.signature(&waits).is_err());
    // So does one with a limit, whether or not the library prints meanwhile.
    for name in ["wait", "wait and print"] {
        let waits = made(provider, name, 0);
        let bounded = provider.clone().within(Duration::from_millis(200));
        let error = bounded.sign(&waits, b"data", None).unwrap_err();
        assert!(error.to_string().contains("in time"), "{error}");
    }
}

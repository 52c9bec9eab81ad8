//! The files of a configuration: Include, owners, bytes.

use super::*;

#[test]
fn includes() {
    let files = MemoryFiles::default()
        .with(
            USER,
            "Include conf.d/*.conf\nHost other\nInclude inner\nHost *\nUser last\n",
        )
        .with("/home/local/.ssh/conf.d/20.conf", "Port 20\nUser twenty")
        .with(
            "/home/local/.ssh/conf.d/10.conf",
            "Host h\nPort 10\nInclude /abs/%u-${X}\nHost none\nUser no\n",
        )
        .with(
            "/abs/local-x",
            "ConnectionAttempts 4\nHost *\nCompression yes\n",
        )
        // Inside a block that does not apply, `Host *` does not either.
        .with(
            "/home/local/.ssh/inner",
            "Host *\nBatchMode yes\nMatch exec \"true in\"\nBatchMode yes\n",
        );
    let env = FakeEnvironment::new().variable("X", "x");
    let options = config(files)
        .resolve("h", &CommandLine::new(), &env)
        .unwrap();
    assert_eq!(
        (options.port, options.connection.connection_attempts),
        (10, 4)
    );
    assert!(options.compression.method.is_on() && !options.authentication.batch_mode);
    assert_eq!(options.user, "twenty");
    assert!(env.commands.borrow().is_empty());
}

#[test]
fn includes_end() {
    let looping = MemoryFiles::default().with(USER, "Include config\n");
    let error = config(looping)
        .resolve("h", &CommandLine::new(), &FakeEnvironment::new())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("Too many recursive configuration includes"),
        "{error}"
    );
    // Without a limit on files this would read 2^15 of them.
    let mut tree = MemoryFiles::default().with(USER, "Include l0\nInclude l0\n");
    for level in 0..14 {
        let next = format!("Include l{}\n", level + 1);
        tree = tree.with(format!("/home/local/.ssh/l{level}"), next.repeat(2));
    }
    let error = config(tree)
        .resolve("h", &CommandLine::new(), &FakeEnvironment::new())
        .unwrap_err();
    assert!(error.to_string().contains("configuration files"), "{error}");
    let system = MemoryFiles::default().with(SYSTEM_FILE, "Include ~/x\n");
    let error = config(system)
        .resolve("h", &CommandLine::new(), &FakeEnvironment::new())
        .unwrap_err();
    assert!(error.to_string().contains("bad include path"), "{error}");
}

#[test]
fn missing_and_explicit_files() {
    let none = MemoryFiles::default();
    assert!(
        config(none.clone())
            .resolve("h", &CommandLine::new(), &FakeEnvironment::new())
            .is_ok()
    );
    let explicit =
        ClientConfig::from_file(Path::new("/nowhere"), Path::new("/home/local")).with_files(none);
    let error = explicit
        .resolve("h", &CommandLine::new(), &FakeEnvironment::new())
        .unwrap_err();
    assert!(error.to_string().contains("/nowhere"), "{error}");
    let no_file = ClientConfig::from_file(Path::new("none"), Path::new("/home/local"));
    assert!(
        no_file
            .resolve("h", &CommandLine::new(), &FakeEnvironment::new())
            .is_ok()
    );
}

#[test]
fn bytes_that_are_no_text() {
    let files = MemoryFiles::default().with(USER, b"# caf\xe9\nPort 3\r\n\r\nUser x\r\n".to_vec());
    let options = config(files)
        .resolve("h", &CommandLine::new(), &FakeEnvironment::new())
        .unwrap();
    assert_eq!((options.port, options.user.as_str()), (3, "x"));
    for bytes in [b"User caf\xe9\n".to_vec(), b"User a\0b\n".to_vec()] {
        let files = MemoryFiles::default().with(USER, bytes);
        assert!(
            config(files)
                .resolve("h", &CommandLine::new(), &FakeEnvironment::new())
                .is_err()
        );
    }
}

#[test]
fn one_bad_line_is_said_in_one_line() {
    assert!(!refusal("Frob 1\n").contains('\n'));
    assert!(refusal("Frob 1\nFrub 2\n").ends_with("terminating, 2 bad configuration options"));
}

#[test]
fn a_file_that_others_could_have_written_is_refused() {
    struct Loose(MemoryFiles);
    impl Files for Loose {
        fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
            self.0.read(path)
        }
        fn list(&self, directory: &Path) -> Vec<std::ffi::OsString> {
            self.0.list(directory)
        }
        fn exists(&self, path: &Path) -> bool {
            self.0.exists(path)
        }
        fn check_owner(&self, path: &Path) -> Result<(), String> {
            Err(format!("Bad owner or permissions on {}", path.display()))
        }
    }
    let text = MemoryFiles::default()
        .with(USER, "Port 3\n")
        .with(SYSTEM_FILE, "Port 4\n");
    let config = ClientConfig::standard(Path::new("/home/local")).with_files(Loose(text));
    let error = config
        .resolve("h", &CommandLine::new(), &FakeEnvironment::new())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("Bad owner or permissions on /home/local/.ssh/config"),
        "{error}"
    );
}

#[test]
fn host_names_of_a_file_are_taken_as_they_are() {
    for name in ["a,b", "a*b", "~x", "${X}", "\"a b\"", "-x", "a;b"] {
        let options = resolve(&format!("HostName {name}\n"), "h");
        let expected = name.trim_matches('"').to_ascii_lowercase();
        assert_eq!(options.hostname, expected);
    }
}

#[test]
fn includes_that_name_nothing_are_passed_over() {
    let files = MemoryFiles::default()
        .with(USER, "Include ${UNSET}/a ~nosuch/b %z c\nPort 7\n")
        .with("/home/local/.ssh/c", "User c\n");
    let options = config(files)
        .resolve("h", &CommandLine::new(), &FakeEnvironment::new())
        .unwrap();
    assert_eq!((options.port, options.user.as_str()), (7, "c"));
    let warnings: Vec<String> = options.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].contains("line 1: Unable to expand include path '${UNSET}/a'"));
}

/// As in OpenSSH 10.6.
#[test]
fn includes_are_looked_for_in_the_home_of_the_environment() {
    let files = MemoryFiles::default()
        .with("/h/.ssh/a", "Port 1001\n")
        .with("/h/b", "Port 1002\n")
        .with("/home/local/.ssh/a", "Port 2001\n")
        .with("/home/local/b", "Port 2002\n")
        .with("/home/bob/b", "Port 3002\n");
    let included = |path: &str, home: Option<&str>| {
        let config = config(files.clone().with(USER, format!("Include {path}\n")));
        let mut environment = FakeEnvironment::new();
        if let Some(home) = home {
            environment = environment.variable("HOME", home);
        }
        let options = config.resolve("h", &CommandLine::new(), &environment);
        options.unwrap().port
    };
    for (path, home, port) in [
        ("a", Some("/h"), 1001),
        ("a", Some("/h/"), 1001),
        ("~/b", Some("/h"), 1002),
        ("~bob/b", Some("/h"), 3002),
        ("%d/b", Some("/h"), 2002),
        ("a", None, 2001),
        ("~/b", None, 2002),
        ("~/b", Some(""), 2002),
    ] {
        assert_eq!(included(path, home), port, "{path} {home:?}");
    }
    let config = with_text("IdentityFile ~/k\n");
    let environment = FakeEnvironment::new().variable("HOME", "/h");
    let options = config.resolve("h", &CommandLine::new(), &environment);
    let files = options.unwrap().user_keys.identity_files;
    assert_eq!(files[0].path, "/home/local/k");
}

use std::io;
use std::path::Path;

use config::Files;

use super::*;

/// One configuration file, whatever its name.
struct Text(String);

impl Files for Text {
    fn read(&self, _path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.clone().into_bytes())
    }
    fn list(&self, _directory: &Path) -> Vec<std::ffi::OsString> {
        Vec::new()
    }
    fn exists(&self, _path: &Path) -> bool {
        true
    }
    fn check_owner(&self, _path: &Path) -> Result<(), String> {
        Ok(())
    }
}

/// The error about jumps that `ssh host` gives before it starts a process; empty if there is none.
fn said(text: &str, host: &str, jump: Option<&str>) -> String {
    let here = Here::default();
    let config =
        ClientConfig::from_file(Path::new("/c"), Path::new("/h")).with_files(Text(text.to_owned()));
    let mut line = CommandLine::new();
    if let Some(jump) = jump {
        line.set("ProxyJump", jump);
    }
    let options = config.resolve(host, &line, &here).unwrap();
    let checked =
        refuse_own_host(&options).and_then(|()| refuse_loops(&options.connection, &config, &here));
    match checked {
        Ok(()) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn loops_are_found_through_the_configuration_of_each_hop() {
    let all = "Host *\nProxyJump foo\n";
    let via = |host: &str| format!("jumphost loop via {host}");
    // Itself, directly and as the hop of another.
    assert_eq!(said(all, "foo", None), via("foo"));
    assert_eq!(said(all, "FOO", None), via("foo"));
    assert_eq!(said(all, "bar", None), via("foo"));
    assert_eq!(said("", "foo", Some("foo")), via("foo"));
    assert_eq!(
        said("", "h", Some("a,b,a")),
        "",
        "the same host twice is no loop"
    );
    assert_eq!(said(all, "h", Some("a,b")), via("foo"));
    // Another name, port or user is another host to OpenSSH, but the hop comes back to itself.
    let renamed = "Host foo\nHostName 192.0.2.1\nHost *\nProxyJump foo\n";
    assert_eq!(said(renamed, "foo", None), via("foo"));
    assert_eq!(said("ProxyJump u@foo\n", "foo", None), via("foo"));
    assert_eq!(said("ProxyJump foo:77\n", "foo", None), via("foo"));
    // Round two and three hosts.
    let two = "Host a\nProxyJump b\nHost b\nProxyJump a\n";
    assert_eq!(said(two, "a", None), via("b"));
    assert_eq!(said(two, "t", Some("a")), via("a"));
    let three = "Host a\nProxyJump b\nHost b\nProxyJump c,x\nHost c\nProxyJump a\n";
    assert_eq!(said(three, "a", None), via("b"));
    // With `-J x` the call of c does not ask its configuration for a jump.
    let turned = three.replace("c,x", "x,c");
    assert_eq!(said(&turned, "a", None), "");
}

#[test]
fn chains_that_end_are_no_loops() {
    for (text, host) in [
        ("", "h"),
        ("Host !gate *\nProxyJump gate\n", "h"),
        ("Host !gate *\nProxyJump gate\n", "gate"),
        ("Host a\nProxyJump b\nHost b\nProxyJump c\n", "a"),
        ("Host gate\nProxyJump none\nHost *\nProxyJump gate\n", "h"),
        ("Host gate\nProxyCommand x\nHost *\nProxyJump gate\n", "h"),
        // Both are 127.0.0.1, each as its neighbour sees it.
        ("Host *\nHostName 127.0.0.1\nHost t\nProxyJump gate\n", "t"),
    ] {
        assert_eq!(said(text, host, None), "", "{text:?} {host}");
    }
}

#[test]
fn chains_without_repetition_are_bounded() {
    let mut text = String::new();
    for hop in 0..60 {
        text.push_str(&format!("Host h{hop}\nProxyJump h{}\n", hop + 1));
    }
    assert_eq!(said(&text, "h29", None), "");
    assert!(said(&text, "h0", None).starts_with("jumphost loop via h3"));
}

#[test]
fn nothing_is_run_to_follow_a_chain() {
    let scratch = std::env::temp_dir().join(format!("fulmar-jumps-{}", std::process::id()));
    let text = format!(
        "Host a\nProxyJump b\nMatch originalhost b exec \"touch {}\"\nProxyJump b\n",
        scratch.display()
    );
    assert_eq!(said(&text, "a", None), "");
    assert!(!scratch.exists());
}

#[test]
fn proxies_inside_one_another_are_bounded() {
    let options = ClientConfig::none(Path::new("/h"))
        .resolve("host", &CommandLine::new(), &Here::default())
        .unwrap();
    assert!(check_depth(MAX_NESTED - 1, &options).is_ok());
    let said = check_depth(MAX_NESTED, &options).unwrap_err().to_string();
    assert!(said.starts_with("jumphost loop via host"), "{said}");
}

//! LogFormat json: each line is an object, whatever clients send, from whichever process it comes.

use interop::json::Value;
use interop::scratch::until;
use privsep_tests::sshd::{Config, LIMIT, Sshd, UserKey, guest_with, possible};

fn objects(log: &str) -> Vec<Value> {
    let lines = log.lines();
    lines
        .map(|line| Value::read(line).unwrap_or_else(|why| panic!("{why}: {line}")))
        .collect()
}

#[test]
fn every_line_is_an_object_with_its_client_and_user() {
    if !possible("a log of JSON objects") {
        return;
    }
    let (key, other) = (UserKey::new(81), UserKey::new(82));
    let guest = guest_with("", &key);
    let server = Sshd::start(Config::new("LogFormat json"));
    server.lets_in(&guest.name, &key);
    let odd = "x\\y,\u{e9}[1m";
    assert_eq!(server.run_command(odd, &other, "true").status, 255);
    let field = |object: &Value, name: &str| {
        let text = object.find(name).and_then(Value::text);
        text.unwrap_or_default().to_owned()
    };
    let is_whole =
        || server.daemon.log().contains("Invalid user") && server.daemon.log().ends_with('\n');
    assert!(until(LIMIT, is_whole), "{}", server.daemon.log());
    server.leaves_nothing_behind();
    let objects = objects(&server.daemon.log());
    let find = |message: &str| {
        let found = objects
            .iter()
            .find(|each| field(each, "message").starts_with(message));
        found.unwrap_or_else(|| panic!("no {message}:\n{}", server.daemon.log()))
    };
    let accepted = find(&format!(
        "Accepted publickey for {} from 127.0.0.1 port ",
        guest.name
    ));
    assert_eq!(field(accepted, "level"), "info");
    assert_eq!(field(accepted, "program"), "sshd");
    assert_eq!(field(accepted, "client"), "127.0.0.1");
    assert_eq!(field(accepted, "user"), guest.name);
    assert!(accepted.find("preauth").is_none());
    let port = accepted
        .find("port")
        .and_then(Value::number)
        .expect("a port");
    assert!(field(accepted, "message").contains(&format!(" port {port} ssh2")));
    let time = field(accepted, "time");
    assert!(
        time.len() == 24 && time.ends_with('Z') && time.contains('T'),
        "{time}"
    );
    let invalid = find("Invalid user ");
    assert_eq!(field(invalid, "user"), "x\\y,\\303\\251[1m");
    let before = |each: &&Value| each.find("preauth") == Some(&Value::Bool(true));
    assert!(
        objects.iter().any(|each| before(&each)),
        "{}",
        server.daemon.log()
    );
    // The listener speaks of no client.
    assert!(find("Server listening on ").find("client").is_none());
    // A reload changes the form.
    server.rewrite(Config::default());
    server.hang_up();
    server.logs("Received SIGHUP; restarting.");
    let is_text = || {
        server.lets_in(&guest.name, &key);
        server.daemon.log().contains("\nAccepted publickey for ")
    };
    assert!(until(LIMIT, is_text), "{}", server.daemon.log());
}

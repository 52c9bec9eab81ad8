//! What the log says of a key or certificate that was found and lets nobody in: lines of OpenSSH 10.6.

use super::*;

/// The lines at INFO that a question about the first key causes.
fn told(home: &mut Home, prefix: &str) -> Vec<String> {
    home.authorized(&format!("{prefix} {}", line(&key(1))));
    home.log = Log::to_memory(LogLevel::Info);
    assert!(home.ask_key("", &key(1)).is_none());
    home.log.lines()
}

#[test]
fn a_key_from_a_forbidden_address_or_after_its_time_is_told() {
    let mut home = Home::new();
    let place = format!("{}/.ssh/authorized_keys:1", home.account.home);
    let refused = format!("error: Refused by key options at {place}");
    let from = format!(
        "{place}: Authentication tried for ada with correct key but not from a permitted host \
         (host=192.0.2.7, ip=192.0.2.7, required=198.51.100.0/24)."
    );
    assert_eq!(
        told(&mut home, "from=\"198.51.100.0/24\""),
        [from, refused.clone()]
    );
    assert_eq!(told(&mut home, "expiry-time=\"20200101Z\""), [refused]);
    // A line of no use, or of an authority, says nothing of this key.
    for prefix in ["no-such-option", "cert-authority"] {
        assert!(told(&mut home, prefix).is_empty(), "{prefix}");
    }
    // Nor is a user who does not exist, or may not log in, named with a key.
    home.valid = false;
    assert!(told(&mut home, "from=\"198.51.100.0/24\"").is_empty());
}

#[test]
fn a_key_that_a_file_lists_many_times_does_not_fill_the_log() {
    let mut home = Home::new();
    let refused = format!("from=\"198.51.100.1\" {}\n", line(&key(1)));
    home.authorized(&refused.repeat(1000));
    home.log = Log::to_memory(LogLevel::Info);
    assert!(home.ask_key("", &key(1)).is_none());
    assert_eq!(home.log.lines().len(), 2 * MAX_REFUSALS);
    // All lines are searched all the same.
    home.authorized(&format!("{}{}", refused.repeat(1000), line(&key(1))));
    assert!(home.ask_key("", &key(1)).is_some());
}

#[test]
fn a_refused_certificate_is_told_with_its_serial_number_and_authority() {
    let mut home = Home::new();
    let authority = home.write("ca", &line(&key(9)));
    let place = format!("{}/.ssh/authorized_keys:1", home.account.home);
    let print = keys::fingerprint::sha256(&key(9).public().blob());
    let named =
        format!("error: Refusing certificate ID \"id\" serial=7 signed by ED25519 CA {print}");
    let mut ask = |keys: &str, config: &str, change: &dyn Fn(&mut CertificateFields)| {
        home.authorized(keys);
        home.log = Log::to_memory(LogLevel::Info);
        let mut fields = fields(&["ada"]);
        change(&mut fields);
        assert!(
            home.ask_certificate(config, &certificate(&fields))
                .is_none()
        );
        home.log.lines().join("|")
    };
    let elsewhere = |fields: &mut CertificateFields| {
        let option = CertificateOption::with_text("source-address", "198.51.100.1");
        fields.critical_options = vec![option];
    };
    let tried = "Authentication tried for ada with valid certificate but not from a permitted \
                 source address (192.0.2.7).";
    let config = format!("TrustedUserCAKeys {authority}");
    for (change, lines) in [
        (
            &(|fields: &mut CertificateFields| fields.valid_before = NOW)
                as &dyn Fn(&mut CertificateFields),
            format!("{named}: Certificate invalid: expired"),
        ),
        (
            &|fields: &mut CertificateFields| fields.principals = vec!["bob".into()],
            format!("{named}: Certificate invalid: name is not a listed principal"),
        ),
        (
            &elsewhere,
            format!("cert: {tried}|{named}: Refused by certificate options"),
        ),
    ] {
        assert_eq!(ask("", &config, change), lines);
    }
    // The same by a line of authorized_keys, which is named.
    let mut by_line = |options: &str, change: &dyn Fn(&mut CertificateFields)| {
        let keys = format!("cert-authority{options} {}", line(&key(9)));
        ask(&keys, "", change)
    };
    assert_eq!(
        by_line("", &elsewhere),
        format!("{place}: {tried}|{named} via {place}: Refused by certificate options")
    );
    assert_eq!(
        by_line(",principals=\"bob\"", &|_| {}),
        format!("{named} via {place}: {}", trust::NO_PRINCIPAL)
    );
}

#[test]
fn a_principal_from_a_forbidden_address_is_told() {
    let mut home = Home::new();
    let authority = home.write("ca", &line(&key(9)));
    let config = format!("TrustedUserCAKeys {authority}\nAuthorizedPrincipalsFile .ssh/principals");
    home.write(".ssh/principals", "from=\"198.51.100.1\" ada\n");
    home.log = Log::to_memory(LogLevel::Info);
    let certificate = certificate(&fields(&["ada"]));
    assert!(home.ask_certificate(&config, &certificate).is_none());
    let lines = home.log.lines();
    let [tried, refused] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert!(tried.starts_with("principals: Authentication tried for ada with correct key"));
    assert!(refused.ends_with(": Refused by certificate principals options"));
}

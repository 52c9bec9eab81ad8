//! What rows there are, and by which names they are asked for.

use std::time::Duration;

use super::*;

fn selection(names: &[&str]) -> Selection {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    Selection::new(&names)
}

#[test]
fn names_are_those_of_ssh_and_of_openssl_speed() {
    for (asked, row) in [
        ("aes-256-ctr", "aes256-ctr umac-64-etm@openssh.com"),
        ("aes256-ctr", "aes-256-ctr"),
        ("AES-128-GCM", "aes128-gcm@openssh.com"),
        ("aes128-gcm@openssh.com", "aes-128-gcm"),
        ("chacha20-poly1305", "chacha20-poly1305@openssh.com"),
        ("chacha", "chacha20-poly1305"),
        ("hmac(sha256)", "hmac-sha2-256"),
        ("hmac-sha2-512", "hmac-sha2-512-etm@openssh.com"),
        ("umac", "umac-128"),
        ("rsa2048", "rsa-2048"),
        ("rsa", "rsa-2048"),
        ("ecdsap256", "ecdsa-nistp256"),
        ("ecdhp256", "ecdh-sha2-nistp256"),
        ("ecdh-sha2-nistp256", "ecdh-sha2-nistp256"),
        ("ML-KEM-768", "mlkem768x25519-sha256"),
    ] {
        assert!(selection(&[asked]).wants(row), "{asked}: {row}");
        assert!(selection(&["nothing", asked]).wants(row), "{asked}: {row}");
    }
    assert!(selection(&[]).wants("anything"));
    assert!(selection(&["ecdhx25519"]).wants_any(&["curve25519-sha256", "ecdhx25519"]));
}

#[test]
fn names_pick_no_other_rows() {
    for (asked, row) in [
        ("aes-256-ctr", "aes-256-gcm"),
        ("aes-256-ctr", "aes-128-ctr"),
        ("hmac-sha2-256", "hmac-sha2-512"),
        ("rsa", "ecdsa-nistp256"),
        ("ecdhp256", "ecdsa-nistp256"),
        ("ecdhx25519", ""),
    ] {
        assert!(!selection(&[asked]).wants(row), "{asked}: {row}");
    }
}

#[test]
fn every_algorithm_has_a_portable_kernel_and_one_in_use() {
    let rows = algorithms::rows(&selection(&[]), Duration::from_micros(12));
    let mut names: Vec<&str> = rows.iter().map(|row| row.name).collect();
    names.dedup();
    assert_eq!(names.len(), 11);
    for name in names {
        let tiers: Vec<_> = rows.iter().filter(|row| row.name == name).collect();
        assert_eq!(tiers[0].times_portable, 1.0, "{name}");
        assert_eq!(tiers.iter().filter(|row| row.in_use).count(), 1, "{name}");
        // The widest kernel comes last, and is the one in use.
        assert!(tiers[tiers.len() - 1].in_use, "{name}");
        for (i, row) in tiers.iter().enumerate() {
            assert!(row.bytes_per_second > 0.0, "{name} {}", row.kernel);
            if let Some(cycles) = row.cycles_per_byte {
                // By the counter's clock, some GHz on any CPU.
                let clock = cycles * row.bytes_per_second;
                assert!(
                    (1e8..1e11).contains(&clock),
                    "{name}: {clock} ticks a second"
                );
            }
            assert!(tiers[..i].iter().all(|other| other.kernel != row.kernel));
        }
    }
    let some = algorithms::rows(&selection(&["aes-256-ctr"]), Duration::from_micros(12));
    assert!(!some.is_empty() && some.iter().all(|row| row.name == "aes-256-ctr"));
    assert!(algorithms::rows(&selection(&["rot13"]), Duration::ZERO).is_empty());
}

#[test]
fn a_report_says_which_kernel_is_in_use() {
    let report = SpeedReport {
        first_random: Duration::from_micros(10),
        warm_up: Duration::from_micros(300),
        algorithms: vec![
            algorithms::AlgorithmRow {
                name: "aes-128-ctr",
                kernel: "aws-lc",
                bytes_per_second: 8.5e9,
                cycles_per_byte: Some(0.359),
                times_portable: 1.0,
                in_use: false,
            },
            algorithms::AlgorithmRow {
                name: "aes-128-ctr",
                kernel: "vaes-512",
                bytes_per_second: 17e9,
                cycles_per_byte: Some(0.18),
                times_portable: 2.0,
                in_use: true,
            },
        ],
        packets: Vec::new(),
        public_key: Vec::new(),
        openssl: None,
        compression: compression::Compression::default(),
    };
    assert!(!report.is_empty());
    let text = report.text();
    let words =
        |line: &str| -> Vec<String> { line.split_whitespace().map(ToString::to_string).collect() };
    let lines: Vec<_> = text.lines().map(words).collect();
    assert!(lines.contains(&words("aes-128-ctr aws-lc 8.50 0.359 1.0")));
    assert!(
        lines.contains(&words("vaes-512 * 17.00 0.180 2.0")),
        "{text}"
    );
    let page = report.html();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_eq!(
        page.matches("class=\"bar\"").count(),
        report.algorithms.len()
    );
    let json = report.json().render();
    assert!(json.contains(
        r#"{"name":"aes-128-ctr","kernel":"vaes-512","packet_bytes":32768,"bytes_per_second":17000000000,"cycles_per_byte":0.18,"times_portable":2,"in_use":true}"#
    ), "{json}");
}

#[test]
fn public_key_figures_stand_beside_the_others() {
    let report = SpeedReport {
        first_random: Duration::ZERO,
        warm_up: Duration::ZERO,
        algorithms: Vec::new(),
        packets: Vec::new(),
        public_key: vec![
            public_key::PublicKeyRow {
                name: "rsa-2048",
                kind: public_key::OperationKind::Signature,
                ours: vec![4000.0, 60_000.0],
                openssl: Some(vec![2000.0, 60_000.0]),
                portable: Some(vec![1000.0, 40_000.0]),
            },
            public_key::PublicKeyRow {
                name: "curve25519-sha256",
                kind: public_key::OperationKind::Exchange,
                ours: vec![100_000.0, 20_000.0, 40_000.0],
                openssl: Some(vec![f64::NAN, f64::NAN, 20_000.0]),
                portable: None,
            },
        ],
        openssl: Some("openssl 3.0.19".to_owned()),
        compression: compression::Compression::default(),
    };
    assert!(!report.is_empty());
    let text = report.text();
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for line in [
        "sign verify sign/s verify/s ours, sign ours, verify",
        "rsa-2048 0.000250s 0.000017s 4000.0 60000.0",
        "openssl 3.0.19 0.000500s 0.000017s 2000.0 60000.0 2.00x 1.00x",
        "portable 0.001000s 0.000025s 1000.0 40000.0 4.00x 1.50x",
        "openssl 3.0.19 0.000050s 20000.0 2.00x",
    ] {
        assert!(lines.iter().any(|each| each == line), "{line}: {text}");
    }
    let json = report.json().render();
    for part in [
        r#""openssl":"openssl 3.0.19""#,
        r#"{"name":"rsa-2048","operation":"sign","per_second":4000,"openssl_per_second":2000,"portable_per_second":1000}"#,
        r#"{"name":"curve25519-sha256","operation":"keygen","per_second":100000,"openssl_per_second":null,"portable_per_second":null}"#,
    ] {
        assert!(json.contains(part), "{part}: {json}");
    }
    let baseline = peers::Baseline::parse(&json);
    assert_eq!(baseline.rate("rsa-2048", "verify"), Some(60_000.0));
    assert_eq!(baseline.rate("curve25519-sha256", "agree"), Some(40_000.0));
    assert_eq!(baseline.rate("rsa-2048", "agree"), None);
}

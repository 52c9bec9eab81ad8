use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn blocks_contain_their_addresses() {
    let list = CidrList::parse("10.0.0.0/8,192.0.2.7,2001:db8::/32").unwrap();
    for inside in [
        "10.255.0.1",
        "192.0.2.7",
        "2001:db8:1::1",
        "::ffff:10.1.2.3",
    ] {
        assert!(list.contains(ip(inside)), "{inside}");
    }
    for outside in ["11.0.0.1", "192.0.2.8", "2001:db9::1"] {
        assert!(!list.contains(ip(outside)), "{outside}");
    }
    assert!(
        CidrList::parse("0.0.0.0/0")
            .unwrap()
            .contains(ip("8.8.8.8"))
    );
}

#[test]
fn what_is_no_block_is_refused() {
    for bad in [
        "",
        "10.0.0.0/33",
        "10.0.0.1/8",
        "10.0.0.0/",
        "10.0.0.0/+8",
        "host",
        "1.2.3.4,",
    ] {
        assert!(CidrList::parse(bad).is_err(), "{bad}");
    }
    assert!(AddressPatterns::parse("host,10.0.0.0/99").is_err());
}

#[test]
fn from_lists_judge_address_and_name_together() {
    let list =
        AddressPatterns::parse("192.0.2.*,!192.0.2.9,*.example.com,!bad.example.com,10.0.0.0/8")
            .unwrap();
    assert!(list.permits(ip("192.0.2.1"), None));
    assert!(!list.permits(ip("192.0.2.9"), Some("a.example.com")));
    assert!(list.permits(ip("203.0.113.1"), Some("A.Example.com")));
    assert!(!list.permits(ip("10.1.1.1"), Some("bad.example.com")));
    assert!(!list.permits(ip("203.0.113.1"), None));
}

#[test]
fn networks_are_checked() {
    assert!(Cidr::parse("192.0.2.0/24").is_ok());
    assert!(Cidr::parse("2001:db8::/32").is_ok());
    assert!(Cidr::parse("0.0.0.0/0").is_ok());
    assert!(Cidr::parse("::/0").is_ok());
    assert!(matches!(
        Cidr::parse("192.0.2.0/33"),
        Err(CidrError::MaskTooLong(_))
    ));
    assert!(matches!(
        Cidr::parse("192.0.2.0/8"),
        Err(CidrError::HostBitsSet(_))
    ));
    assert_eq!(Cidr::parse("192.0.2.0/024"), Cidr::parse("192.0.2.0/24"));
    for bad in ["192.0.2.0/", "192.0.2.0/+8", "192.0.2.0/-8", "192.0.2.0/8x"] {
        assert!(
            matches!(Cidr::parse(bad), Err(CidrError::NotANetwork(_))),
            "{bad}"
        );
    }
    assert!(matches!(
        Cidr::parse("fe80::1%eth0"),
        Err(CidrError::Zone(_))
    ));
    assert!(matches!(Cidr::parse(""), Err(CidrError::NotANetwork(_))));
}

#[test]
fn blocks_group_sources() {
    let block = |a: &str, b4, b6| net_block(a.parse().unwrap(), b4, b6).to_string();
    assert_eq!(block("192.0.2.9", 24, 64), "192.0.2.0");
    assert_eq!(block("192.0.2.9", 32, 64), "192.0.2.9");
    assert_eq!(block("192.0.2.9", 0, 64), "0.0.0.0");
    assert_eq!(block("2001:db8:1:2:3::4", 24, 64), "2001:db8:1:2::");
    assert_eq!(block("2001:db8::4", 24, 0), "::");
}

#[test]
fn an_empty_entry_spoils_the_list() {
    for list in ["", "192.0.2.1,", "192.0.2.1,!", "192.0.2.1,,192.0.2.2"] {
        assert_eq!(match_list(Some("192.0.2.1"), list), Err(CidrError::Empty));
        assert!(AddressPatterns::parse(list).is_err());
        assert!(!match_host_and_address("192.0.2.1", "192.0.2.1", list).is_yes());
    }
}

#[test]
fn a_mask_of_no_family_makes_a_pattern_as_in_sshd() {
    let judged = |list| match_list(Some("192.0.2.1"), list);
    assert_eq!(judged("192.0.2.0/200"), Ok(ListMatch::No));
    assert_eq!(judged("192.0.2.0/x,192.0.2.1"), Ok(ListMatch::Yes));
    assert!(judged("192.0.2.0/128").is_err());
    // In `from=` it may have been meant to deny access, so the line is refused.
    assert!(AddressPatterns::parse("*,!192.0.2.0/200").is_err());
}

#[test]
fn patterns_of_addresses_are_compared_to_the_letter() {
    let judged = |list| match_list(Some("2001:db8::1"), list);
    assert_eq!(judged("2001:db8::*"), Ok(ListMatch::Yes));
    assert_eq!(judged("2001:DB8::*"), Ok(ListMatch::No));
}

/// Results of `getaddrinfo` with `AI_NUMERICHOST` in glibc 2.36.
#[test]
fn addresses_are_read_as_getaddrinfo_reads_numbers() {
    for (text, address) in [
        ("127.1", "127.0.0.1"),
        ("10.0.0", "10.0.0.0"),
        ("10.1.2", "10.1.0.2"),
        ("10.65535", "10.0.255.255"),
        ("2130706433", "127.0.0.1"),
        ("4294967295", "255.255.255.255"),
        ("0177.0.0.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0X7F000001", "127.0.0.1"),
        ("127.000.000.001", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("::1", "::1"),
        ("::ffff:10.1.2.3", "::ffff:10.1.2.3"),
    ] {
        assert_eq!(parse_address(text), Some(ip(address)), "{text}");
    }
    for text in [
        "",
        ".",
        "1.",
        ".1",
        "1..2",
        "256.1.1.1",
        "10.1.2.256",
        "10.1.65536",
        "10.16777216",
        "4294967296",
        "1.2.3.4.5",
        "08",
        "0x",
        "0x.1",
        "+1",
        "-1",
        " 1",
        "1 ",
        "a.b",
        "ff",
        "1.2.3.4:22",
        "fe80::1%eth0",
    ] {
        assert_eq!(parse_address(text), None, "{text}");
    }
}

#[test]
fn short_networks_match_what_they_stand_for() {
    for list in ["10.0.0/8", "10/8", "012.0.0.0/8", "10.0/8,!10.2.0.0/16"] {
        let judged = match_list(Some("10.1.2.3"), list);
        // `10/8` is 0.0.0.10/8, which has bits set after the prefix.
        let expected = if list == "10/8" {
            Err(CidrError::HostBitsSet(list.to_owned()))
        } else {
            Ok(ListMatch::Yes)
        };
        assert_eq!(judged, expected, "{list}");
    }
    for from in ["127.1", "0177.0.0.1", "127.000.000.001", "2130706433"] {
        let list = AddressPatterns::parse(from).unwrap();
        assert!(list.permits(ip("127.0.0.1"), None), "{from}");
        assert!(!list.permits(ip("127.0.0.2"), None), "{from}");
        assert!(match_host_and_address("127.0.0.1", "127.0.0.1", from).is_yes());
    }
    assert!(
        CidrList::parse("127.1,10.0.0/8")
            .unwrap()
            .contains(ip("10.9.9.9"))
    );
    assert!(CidrList::parse("0x7f.1").is_err());
}

/// As in OpenSSH: a mapped peer is an IPv4 one, a mapped entry is an IPv6 one.
#[test]
fn mapped_addresses_in_lists_match_no_ipv4_peer() {
    for entry in ["::ffff:10.1.2.3", "::ffff:0:0/96", "::/0"] {
        let network = Cidr::parse(entry).unwrap();
        for peer in ["10.1.2.3", "::ffff:10.1.2.3"] {
            assert!(!network.contains(ip(peer)), "{entry} {peer}");
        }
        let list = AddressPatterns::parse(entry).unwrap();
        assert!(!list.permits(ip("10.1.2.3"), None));
        assert!(!CidrList::parse(entry).unwrap().contains(ip("10.1.2.3")));
    }
    assert!(
        Cidr::parse("10.0.0.0/8")
            .unwrap()
            .contains(ip("::ffff:10.1.2.3"))
    );
}

#[test]
fn a_list_of_addresses_holds_nothing_that_no_address_matches() {
    for good in [
        "10.0.0/8",
        "127.1,!10.*",
        "2001:db8::*,fe80::/10",
        "*",
        "1?.*",
        "!::1,*",
    ] {
        assert_eq!(check_address_list(good), Ok(Vec::new()), "{good}");
    }
    // Names beside what can match are accepted, and the check returns them.
    for (list, names) in [
        ("10.0.0.0/8,host.example.com", vec!["host.example.com"]),
        (
            "localhost,!10.1.0.0/16,h-1.example.com,10.*",
            vec!["localhost", "h-1.example.com"],
        ),
    ] {
        assert_eq!(check_address_list(list), Ok(names), "{list}");
    }
    for bad in [
        "10.0.0.0/200",
        "host.example.com/24",
        "fe80::1::x",
        "host.example.300",
        "10.0.0.0/x",
        "10.0.0.300",
        "*,!10.0.0.0/x",
        // A negated name or a pattern of names.
        "10.0.0.0/8,!localhost",
        "10.0.0.0/8,!host.example.com",
        "10.0.0.0/8,*.example.com",
        // Names beside nothing that can match.
        "localhost",
        "host.example.com,localhost",
        "host.example.com,!10.0.0.0/8",
        // Addresses with typing errors.
        "::1,10.0.0.x",
        "::1,10.0.x.1",
        "::1,10.0.0.1x.2",
        "::1,0x10.0.0.x",
        "::1,089.x",
        "::1,10.0.0.0.0",
        "::1,256.0.0.300",
        "::1,10..x",
        "::1,host.",
    ] {
        assert!(
            matches!(check_address_list(bad), Err(CidrError::MatchesNothing(_))),
            "{bad}"
        );
    }
    assert!(check_address_list("10.0.0.1/8").is_err());
    assert!(matches!(
        check_address_list("fe80::1%eth0"),
        Err(CidrError::Zone(_))
    ));
    assert!(check_host_list("*.example.com,10.0.0/8").is_ok());
    assert!(check_host_list("*,!10.0.0.0/x").is_err());
    assert!(AddressPatterns::parse("fe80::1%1").is_err());
}

#[test]
fn a_network_has_its_first_and_its_last_address() {
    let all = |text: &str| -> Vec<String> {
        let network = Cidr::parse(text).unwrap();
        network.addresses().map(|each| each.to_string()).collect()
    };
    assert_eq!(
        all("192.0.2.4/30"),
        ["192.0.2.4", "192.0.2.5", "192.0.2.6", "192.0.2.7"]
    );
    assert_eq!(all("127.1"), ["127.0.0.1"]);
    assert_eq!(
        all("2001:db8::fffe/127"),
        ["2001:db8::fffe", "2001:db8::ffff"]
    );
    let mut every = Cidr::parse("::/0").unwrap().addresses();
    assert_eq!(every.next(), Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)));
}

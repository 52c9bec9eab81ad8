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
    assert!(matches!(
        Cidr::parse("192.0.2.0/+8"),
        Err(CidrError::NotANetwork(_))
    ));
    assert!(matches!(
        Cidr::parse("192.0.2/24"),
        Err(CidrError::NotANetwork(_))
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
    // In `from=` it could be meant to deny, so the line does not count.
    assert!(AddressPatterns::parse("*,!192.0.2.0/200").is_err());
}

#[test]
fn patterns_of_addresses_are_compared_to_the_letter() {
    let judged = |list| match_list(Some("2001:db8::1"), list);
    assert_eq!(judged("2001:db8::*"), Ok(ListMatch::Yes));
    assert_eq!(judged("2001:DB8::*"), Ok(ListMatch::No));
}

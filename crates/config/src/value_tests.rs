use super::*;
use crate::client::CLIENT_TABLE;
use crate::printing::written;
use crate::server::SERVER_TABLE;
use crate::server::table::Row;
use crate::{ClientOptions, ServerOptions};

#[test]
fn every_default_can_be_read() {
    for keyword in SERVER_TABLE.iter().chain(CLIENT_TABLE.iter()) {
        assert_eq!(
            default_of(&keyword).is_some(),
            !keyword.default.is_empty(),
            "{}",
            keyword.name
        );
    }
}

#[test]
fn every_default_is_of_its_fields_type() {
    let mut client = Values::empty(CLIENT_TABLE.len());
    client.complete(CLIENT_TABLE, Side::Client, true);
    let (_, mistyped) = ClientOptions::of(|row| client.at(row.index()).cloned());
    assert_eq!(mistyped, None);
    let mut server = Values::empty(SERVER_TABLE.len());
    server.complete(SERVER_TABLE, Side::Server, true);
    let (_, mistyped) = ServerOptions::of(|row| server.at(row.index()).cloned());
    assert_eq!(mistyped, None);
    server.put(Row::UsePAM.index(), Value::Number(1));
    let (_, mistyped) = ServerOptions::of(|row| server.at(row.index()).cloned());
    assert_eq!(mistyped, Some(Row::UsePAM));
}

#[test]
fn written_words_are_read_as_the_same_value() {
    for (name, line) in [
        ("RekeyLimit", "1G 1h"),
        ("RekeyLimit", "default none"),
        ("RekeyLimit", "16K 0"),
        ("IPQoS", "af21 0x01"),
        ("IPQoS", "none le"),
        ("MaxStartups", "5"),
        ("PerSourceNetBlockSize", "24:64"),
        ("CryptoThreads", "auto"),
        ("CryptoThreads", "3"),
        ("LogLevel", "quiet"),
        ("LogLevel", "DEBUG1"),
        ("SyslogFacility", "local7"),
        ("PermitRootLogin", "prohibit-password"),
        ("WarnWeakCrypto", "no-pq-kex"),
        ("FingerprintHash", "md5"),
    ] {
        let keyword = find(SERVER_TABLE, name).and_then(|row| SERVER_TABLE.get(row));
        let kind = keyword.unwrap().kind;
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let value = kind.read(name, &words, line).unwrap();
        assert_eq!(kind.read(name, &written(&value), ""), Ok(value), "{line}");
    }
}

#[test]
fn lists_come_back_from_the_encoded_form() {
    let lines = [
        ("Port", &["22", "2222"][..]),
        ("ListenAddress", &["::1", "[::1]:3 rdomain vrf", "h:4"]),
        ("SetEnv", &["A=b C= D=e=f"]),
        ("Subsystem", &["a b c", "d e"]),
        ("AuthenticationMethods", &["publickey,password hostbased"]),
        ("AuthenticationMethods", &["any"]),
    ];
    let mut values = Values::empty(SERVER_TABLE.len());
    for (name, arguments) in lines {
        let row = find(SERVER_TABLE, name).unwrap();
        let keyword = SERVER_TABLE.get(row).unwrap();
        values.clear(row);
        for line in arguments {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let value = keyword.kind.read(name, &words, line).unwrap();
            values.enter(row, keyword.repeat, value);
        }
        let blob = crate::codec::encoded_options(&values, true);
        let decoded = ServerOptions::decode(&blob).unwrap();
        assert_eq!(decoded.values().at(row), values.at(row), "{name}");
    }
}

#[test]
fn a_value_of_another_type_is_not_decoded() {
    let mut values = Values::empty(SERVER_TABLE.len());
    let decoded =
        |values: &Values| ServerOptions::decode(&crate::codec::encoded_options(values, true));
    assert!(decoded(&values).is_ok());
    values.put(Row::StrictModes.index(), Value::Number(0));
    assert_eq!(decoded(&values), Err(crate::error::MISTYPED));
    values.put(Row::StrictModes.index(), Value::Flag(true));
    for (row, word) in [
        (Row::Port, "22"),
        (Row::ListenAddress, "::1"),
        (Row::SetEnv, "A=b"),
        (Row::Subsystem, "a b"),
        (Row::AuthenticationMethods, "publickey"),
        (Row::ChannelTimeout, "session=5m"),
        (Row::PermitOpen, "any"),
        (Row::PermitListen, "*:80"),
        (Row::PermitUserEnvironment, "yes"),
        (Row::PubkeyAuthOptions, "touch-required"),
        (Row::PerSourcePenaltyExemptList, "::1"),
    ] {
        let mut values = values.clone();
        values.put(row.index(), Value::Words(vec![word.to_owned()]));
        assert_eq!(decoded(&values), Err(crate::error::MISTYPED), "{word}");
    }
}

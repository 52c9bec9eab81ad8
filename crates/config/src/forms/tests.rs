use super::client::*;
use super::server::*;
use super::*;
use crate::value::written;

fn read(form: fn(&[String]) -> Form, text: &str) -> Option<String> {
    let words: Vec<String> = text
        .split(' ')
        .filter(|w| !w.is_empty())
        .map(str::to_owned)
        .collect();
    form(&words).ok().map(|value| match value.entries() {
        Some(entries) if !entries.is_empty() => entries.join("|"),
        _ => written(&value).join("|"),
    })
}

type Case = (fn(&[String]) -> Form, &'static str, Option<&'static str>);

#[test]
fn each_form_reads_what_the_manual_says() {
    let cases: &[Case] = &[
        (log_level, "debug1", Some("DEBUG")),
        (permitted_remotes, "any", Some("any")),
        (permitted_remotes, "None", Some("None")),
        (permitted_remotes, "h:1 [::1]:*", Some("h:1|[::1]:*")),
        (permitted_remotes, "80", None),
        (permitted_remotes, "h/80", None),
        (permitted_listeners, "80", Some("*:80")),
        (permitted_listeners, "h:80", Some("h:80")),
        (permitted_listeners, "h/80", None),
        (log_level, "quiet", Some("SILENT")),
        (log_level, "loud", None),
        (facility, "authpriv", Some("AUTHPRIV")),
        (facility, "local8", None),
        (facility, "local", None),
        (ip_qos, "ef", Some("ef|ef")),
        (ip_qos, "af21 0x01", Some("af21|0x01")),
        (ip_qos, "lowdelay 8", Some("none|0x08")),
        (ip_qos, "a b c", None),
        (rekey_limit, "default none", Some("0")),
        (rekey_limit, "16K", Some("16384")),
        (rekey_limit, "16K 0", Some("16384|0")),
        (rekey_limit, "1G 1h", Some("1073741824|3600")),
        (rekey_limit, "15", None),
        (rekey_limit, "1.5G", Some("1610612736")),
        (rekey_limit, "G", None),
        (rekey_limit, "1X", None),
        (crypto_threads, "Auto", Some("auto")),
        (crypto_threads, "08", Some("8")),
        (crypto_threads, "256", Some("256")),
        (crypto_threads, "257", None),
        (crypto_threads, "0", None),
        (crypto_threads, "-1", None),
        (crypto_threads, "many", None),
        (crypto_threads, "2 3", None),
        (libraries, "none", Some("none")),
        (libraries, "/a/libz.so /b", Some("/a/libz.so|/b")),
        (libraries, "/a/libz.so libz.so", None),
        (libraries, "/a none", None),
        (libraries, "~/libz.so", None),
        (window_memory, "256M", Some("268435456")),
        (window_memory, "64K", Some("65536")),
        (window_memory, "65535", None),
        (window_memory, "1G 2", None),
        (window_memory, "much", None),
        (
            channel_timeout,
            "session:*=5m global=0",
            Some("session:*=5m|global=0"),
        ),
        (channel_timeout, "none", Some("none")),
        (channel_timeout, "=5m", None),
        (channel_timeout, "x=y", None),
        (environment_names, "LANG LC_*", Some("LANG|LC_*")),
        (environment_names, "A=b", None),
        (set_env, "A= A=2 B=c=d", Some("A=|B=c=d")),
        (set_env, "=x", None),
        (escape_char, "none", Some("none")),
        (escape_char, "NONE", None),
        (escape_char, "^b", Some("\\^B")),
        (escape_char, "^", Some("^")),
        (escape_char, "x", Some("x")),
        (escape_char, "\\", Some("\\\\")),
        (escape_char, "xy", None),
        (escape_char, "é", None),
        (add_keys_to_agent, "yes", Some("true")),
        (add_keys_to_agent, "confirm 1h", Some("confirm|3600")),
        (add_keys_to_agent, "90", Some("90")),
        (add_keys_to_agent, "0", Some("true")),
        (add_keys_to_agent, "confirm 0", Some("confirm")),
        (add_keys_to_agent, "ask 1h", None),
        (control_persist, "10m", Some("600")),
        (control_persist, "0", Some("yes")),
        (control_persist, "x", None),
        (control_persist, "YES", None),
        (forward_agent, "/tmp/x", Some("/tmp/x")),
        (forward_agent, "$", None),
        (identity_agent, "NONE", Some("none")),
        (identity_agent, "$SOCK_1", Some("$SOCK_1")),
        (identity_agent, "${HOME}/a", Some("${HOME}/a")),
        (identity_agent, "$$", None),
        (identity_agent, "$a-b", None),
        (identity_agent, "a b", None),
        (known_hosts_files, "NONE", Some("none")),
        (known_hosts_files, "/a /b", Some("/a|/b")),
        (known_hosts_files, "/a none", None),
        (obscure_keystrokes, "Yes", None),
        (obscure_keystrokes, "interval:20", Some("interval:20")),
        (obscure_keystrokes, "interval:0", None),
        (tunnel_device, "1", Some("1:any")),
        (tunnel_device, "any:3", Some("any:3")),
        (tunnel_device, "ANY:3", Some("any:3")),
        (tunnel_device, "x", None),
        (local_forward, "8080 h:80", Some("8080 [h]:80")),
        (
            local_forward,
            "[::1]:80 /run/sock",
            Some("[::1]:80 /run/sock"),
        ),
        (local_forward, "/a /b", Some("/a /b")),
        (local_forward, "h:x h:80", None),
        (local_forward, "a b c", None),
        (local_forward, "8080", None),
        (local_forward, "0 h:1", None),
        (local_forward, "8080 h:0", None),
        (local_forward, "8080 h", None),
        (local_forward, "::1 h:2", None),
        (local_forward, "1 h:2:3", None),
        (remote_forward, "8080", Some("8080 [socks]:0")),
        (remote_forward, "0 h:1", Some("0 [h]:1")),
        (remote_forward, "[::1]:0 h:1", Some("[::1]:0 [h]:1")),
        (remote_forward, "8080:h:80", None),
        (dynamic_forward, "h:1080", Some("[h]:1080")),
        (dynamic_forward, "1080 h:1", None),
        (dynamic_forward, "0", None),
        (domains, "Example.COM. b", Some("example.com|b")),
        (domains, "a..b", None),
        (domains, ".a", None),
        (domains, "_a", Some("_a")),
        (domains, "none a", None),
        (domains, "a b;c", None),
        (cname_rules, "*", Some("*:*")),
        (cname_rules, "a:b,c", Some("a:b,c")),
        (cname_rules, "a", None),
        (ports, "022", Some("22")),
        (ports, "0", None),
        (listen_address, "0.0.0.0", Some("0.0.0.0")),
        (listen_address, "::", Some("::")),
        (listen_address, "[::]:22", Some("[::]:22")),
        (listen_address, "h:22 rdomain vrf", Some("h:22 rdomain vrf")),
        (listen_address, "h:22 rdomain a/b", None),
        (listen_address, "h:22 rdomain a-name-that-is-too-long", None),
        (listen_address, "h:0", None),
        (listen_address, "*", None),
        (listen_address, "*:22", None),
        (listen_address, "h rdomain", None),
        (net_block_size, "24", Some("24:128")),
        (net_block_size, "32:129", None),
        (user_environment, "YES", Some("YES")),
        (user_environment, "LANG,LC_*", Some("LANG,LC_*")),
        (
            pubkey_options,
            "touch-required touch-required verify-required",
            Some("touch-required|verify-required"),
        ),
        (pubkey_options, "frob", None),
        (permitted_listeners, "8080 h:1", Some("*:8080|h:1")),
        (permitted_ports, "h:*", Some("h:*")),
        (permitted_ports, "h:x", None),
        (
            user_patterns,
            "ann b*@10.0.0.0/8",
            Some("ann|b*@10.0.0.0/8"),
        ),
        (user_patterns, "ann@10.0.0.1/8", None),
        (
            subsystem,
            "sftp internal-sftp -R",
            Some("sftp internal-sftp -R"),
        ),
        (subsystem, "sftp", None),
    ];
    for (form, text, expected) in cases {
        assert_eq!(read(*form, text).as_deref(), *expected, "{text}");
    }
}

#[test]
fn nothing_is_read_from_no_words() {
    for form in [
        log_level,
        facility,
        ip_qos,
        rekey_limit,
        escape_char,
        local_forward,
        remote_forward,
        dynamic_forward,
        identity_agent,
        max_startups,
        penalties,
        subsystem,
    ] {
        assert!(form(&[]).is_err());
    }
}

#[test]
fn twelve_arguments_of_a_subsystem_all_arrive() {
    let text = "sftp internal-sftp 1 2 3 4 5 6 7 8 9 10 11 12";
    assert_eq!(read(subsystem, text).as_deref(), Some(text));
}

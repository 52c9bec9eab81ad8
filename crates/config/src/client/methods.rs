//! `PreferredAuthentications`: the methods of this client.

/// The methods that this client supports, in the order of preference.
const METHODS: [&str; 6] = [
    "gssapi-keyex",
    "gssapi-with-mic",
    "hostbased",
    "publickey",
    "keyboard-interactive",
    "password",
];

/// The warning about methods of `PreferredAuthentications` that this client lacks; as in OpenSSH
/// they are no error.
pub(crate) fn passed_over(list: &str) -> Option<String> {
    let other = |name: &&str| !name.is_empty() && !METHODS.contains(name);
    let others: Vec<&str> = list.split(',').filter(other).collect();
    let said = || {
        format!(
            "{} not known to this version; ignored",
            escape::one_line(others.join(","))
        )
    };
    (!others.is_empty()).then(said)
}

/// The methods of `PreferredAuthentications` that this client has; all if it is not set.
pub(crate) fn supported(mut names: Vec<String>) -> Vec<String> {
    if names.is_empty() {
        return METHODS.map(str::to_owned).to_vec();
    }
    names.retain(|name| METHODS.contains(&name.as_str()));
    names
}

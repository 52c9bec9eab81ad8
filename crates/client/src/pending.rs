//! Options that `config` will carry out.
use config::client::ClientOptions;
pub fn proxy_use_fdpass(_: &ClientOptions) -> bool {
    false
}
pub fn known_hosts_command(_: &ClientOptions) -> Option<String> {
    None
}
pub fn local_command(_: &ClientOptions) -> Option<String> {
    None
}
pub fn daemonize() -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

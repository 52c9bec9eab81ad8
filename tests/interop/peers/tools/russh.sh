# Rust's crates russh and russh-sftp as a client.
"$T_TARGET/peers-russh/debug/russh-client"

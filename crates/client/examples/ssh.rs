//! The client as a program of its own: `cargo run -p client --example ssh -- user@host command`.

fn main() {
    let args = std::env::args_os().skip(1).collect();
    std::process::exit(client::ssh_main(args));
}

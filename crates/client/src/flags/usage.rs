//! The usage text of `ssh`.

/// The text for a command line that cannot be parsed.
pub const USAGE: &str = "\
usage: ssh [flags] [user@]host [command [argument ...]]
       ssh [flags] ssh://[user@]host[:port] [command [argument ...]]
       ssh -Q list | -V

  -l user            log in as user            -p port      port of the server
  -i file            key to log in with        -F file      use only this configuration
  -o 'Key value'     any option of ssh_config  -G           print the configuration and exit
  -J [user@]host     connect through this host -W host:port connect stdin and stdout to host:port
  -t, -T             with, without a terminal  -s           the command is a subsystem's name
  -n                 do not read stdin         -N           no command
  -f                 go to the background      -e char      escape character, or none
  -c ciphers         ciphers, in order         -m macs      MACs, in order
  -C                 compress                  -4, -6       IPv4, IPv6 only
  -b address         connect from this address -B interface connect from this interface
  -Z                 list the keys that would be tried and exit
  -v, -q             more messages, none       -E file      write messages to this file
  -y                 write messages to syslog  -P tag       tag for Match tagged
  -A                 forward the agent         -a, -x, -k   no agent, X11, Kerberos
  -K                 Kerberos login, delegate
  -M                 share the connection      -S path      socket of a shared connection
  -O command         check, forward, cancel, exit or stop: ask the master of a shared connection
  -Q list            supported names (-Q help: the lists)   -V   version
";

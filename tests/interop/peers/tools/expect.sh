# A dialogue: the password, a shell at a terminal, a command's output, the end with a status.
cat >dialogue <<'END'
set timeout 60
spawn ssh -tt -o BatchMode=no -o PubkeyAuthentication=no -l $env(T_GUEST) $env(T_HOST)
expect {
    -nocase "password:" {}
    timeout { exit 91 }
    eof { exit 92 }
}
send "$env(T_PASSWORD)\r"
expect {
    -re {[$#] $} {}
    timeout { exit 93 }
    eof { exit 94 }
}
send "echo a\$((6*7))b; stty size\r"
expect {
    "a42b" {}
    timeout { exit 95 }
    eof { exit 96 }
}
send "exit 17\r"
expect {
    eof {}
    timeout { exit 97 }
}
exit [lindex [wait] 3]
END
code=0
expect -f dialogue >said || code=$?
test "$code" = 17 || { cat said; exit "$code"; }

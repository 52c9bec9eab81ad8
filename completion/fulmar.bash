# Completion of fulmar for bash; made by `cargo xtask man` from crates/flags/src/tables.rs; change that.

_fulmar_words() { COMPREPLY=($(compgen -W "$1" -- "$_fulmar_current")); }
_fulmar_query() { _fulmar_words "$(fulmar ssh -Q "$1" 2>/dev/null)"; }
_fulmar_files() { compopt -o filenames; COMPREPLY=($(compgen -f -- "$_fulmar_current")); }
_fulmar_folders() { compopt -o filenames; COMPREPLY=($(compgen -d -- "$_fulmar_current")); }
_fulmar_users() { COMPREPLY=($(compgen -u -- "$_fulmar_current")); }
_fulmar_hosts() {
    local user= name=$_fulmar_current
    if [[ $name == *@* ]]; then user=${name%%@*}@ name=${name#*@}; fi
    local known
    known=$(sed -n 's/^[[:space:]]*[Hh]ost[[:space:]=]*//p' ~/.ssh/config 2>/dev/null |
        tr ' ' '\n' | grep -v '[*?!]')
    COMPREPLY=($(compgen -P "$user" -A hostname -W "$known" -- "$name"))
}
_fulmar_options() {
    compopt -o nospace
    case $1 in
        ssh) _fulmar_words 'AddKeysToAgent= AddressFamily= BatchMode= BindAddress= BindInterface= CASignatureAlgorithms= CanonicalDomains= CanonicalizeFallbackLocal= CanonicalizeHostname= CanonicalizeMaxDots= CanonicalizePermittedCNAMEs= CertificateFile= ChannelTimeout= CheckHostIP= Ciphers= ClearAllForwardings= Compression= CompressionAdaptive= CompressionLevel= CompressionThreads= ConnectTimeout= ConnectionAttempts= ControlConnections= ControlMaster= ControlPath= ControlPersist= CryptoThreads= DynamicForward= EnableEscapeCommandline= EnableHwCompression= EnableSSHKeysign= EscapeChar= ExitOnForwardFailure= FingerprintHash= ForkAfterAuthentication= ForwardAgent= ForwardX11= ForwardX11Timeout= ForwardX11Trusted= GSSAPIAuthentication= GSSAPIClientIdentity= GSSAPIDelegateCredentials= GSSAPIKexAlgorithms= GSSAPIKeyExchange= GSSAPIRenewalForcesRekey= GSSAPIServerIdentity= GSSAPITrustDns= GatewayPorts= GlobalKnownHostsFile= HashKnownHosts= HostKeyAlgorithms= HostKeyAlias= HostName= HostbasedAcceptedAlgorithms= HostbasedAuthentication= HwCompressionLibrary= HwCompressionVerify= IPQoS= IdentitiesOnly= IdentityAgent= IdentityFile= IgnoreUnknown= KbdInteractiveAuthentication= KbdInteractiveDevices= KexAlgorithms= KnownHostsCommand= LocalCommand= LocalForward= LogLevel= LogVerbose= LoginCache= MACs= NoHostAuthenticationForLocalhost= NumberOfPasswordPrompts= ObscureKeystrokeTiming= PKCS11Provider= PasswordAuthentication= PermitLocalCommand= PermitRemoteOpen= PipelineLogin= Port= PreferredAuthentications= ProxyCommand= ProxyJump= ProxyUseFdpass= PubkeyAcceptedAlgorithms= PubkeyAuthentication= RefuseConnection= RekeyLimit= RemoteCommand= RemoteForward= RequestTTY= RequiredRSASize= RevokedHostKeys= SecurityKeyProvider= SendEnv= ServerAliveCountMax= ServerAliveInterval= SessionType= SetEnv= StdinNull= StreamLocalBindMask= StreamLocalBindUnlink= StrictHostKeyChecking= SyslogFacility= TCPFastOpen= TCPKeepAlive= Tag= Tunnel= TunnelDevice= UpdateHostKeys= UseMPTCP= User= UserKnownHostsFile= VerifyHostKeyDNS= VersionAddendum= VisualHostKey= WarnWeakCrypto= WindowMemory= XAuthLocation=' ;;
        sshd) _fulmar_words 'AcceptEnv= AddressFamily= AgentSocketLink= AgentSocketPath= AllowAgentForwarding= AllowGroups= AllowStreamLocalForwarding= AllowTcpForwarding= AllowUsers= AuthenticationMethods= AuthorizedKeysCommand= AuthorizedKeysCommandUser= AuthorizedKeysFile= AuthorizedPrincipalsCommand= AuthorizedPrincipalsCommandUser= AuthorizedPrincipalsFile= Banner= CASignatureAlgorithms= ChannelTimeout= ChrootDirectory= Ciphers= ClientAliveCountMax= ClientAliveInterval= Compression= CompressionAdaptive= CompressionLevel= CompressionThreads= CryptoThreads= DenyGroups= DenyUsers= DisableForwarding= EnableHwCompression= ExposeAuthInfo= FingerprintHash= ForceCommand= GSSAPIAuthentication= GSSAPICleanupCredentials= GSSAPIDelegateCredentials= GSSAPIKexAlgorithms= GSSAPIKeyExchange= GSSAPIStoreCredentialsOnRekey= GSSAPIStrictAcceptorCheck= GatewayPorts= HostCertificate= HostKey= HostKeyAgent= HostKeyAlgorithms= HostbasedAcceptedAlgorithms= HostbasedAuthentication= HostbasedUsesNameFromPacketOnly= HwCompressionLibrary= HwCompressionVerify= IPQoS= IgnoreRhosts= IgnoreUserKnownHosts= KbdInteractiveAuthentication= KerberosAuthentication= KerberosOrLocalPasswd= KerberosTicketCleanup= KexAlgorithms= ListenAddress= LogFormat= LogLevel= LogVerbose= LoginGraceTime= MACs= MaxAuthTries= MaxSessions= MaxStartups= MetricsFile= MetricsListen= ModuliFile= PAMServiceName= PasswordAuthentication= PerSourceMaxStartups= PerSourceNetBlockSize= PerSourcePenalties= PerSourcePenaltyExemptList= PermitEmptyPasswords= PermitListen= PermitOpen= PermitRootLogin= PermitTTY= PermitTunnel= PermitUserEnvironment= PermitUserRC= PidFile= Port= PreauthSpares= PrintLastLog= PrintMotd= ProxyProtocolFrom= PubkeyAcceptedAlgorithms= PubkeyAuthOptions= PubkeyAuthentication= RecordTerminals= RefuseConnection= RekeyLimit= RequiredRSASize= RevokedKeys= SecurityKeyProvider= SetEnv= SftpRoot= StreamLocalBindMask= StreamLocalBindUnlink= StrictModes= Subsystem= SyslogFacility= TCPKeepAlive= TrustedUserCAKeys= UnusedConnectionTimeout= UseDNS= UseMPTCP= UsePAM= VersionAddendum= VersionNamesOpenSSH= WarnWeakCrypto= WindowMemory= X11DisplayOffset= X11Forwarding= X11UseLocalhost= XAuthLocation=' ;;
    esac
}

_fulmar() {
    local _fulmar_current=${COMP_WORDS[COMP_CWORD]}
    local program=${COMP_WORDS[1]} previous=${COMP_WORDS[COMP_CWORD-1]}
    if [ "$COMP_CWORD" -eq 1 ]; then
        local programs='ssh sshd sftp-server scp sftp each agent add keygen keyscan copy-id install help version'
# bench: begin
        programs+=' demo bench speed'
# bench: end
        _fulmar_words "$programs"
        return
    fi
    case $program:$previous in
        ssh:-B) : ;;
        ssh:-b) : ;;
        ssh:-c) _fulmar_query cipher ;;
        ssh:-D) : ;;
        ssh:-E) _fulmar_files ;;
        ssh:-e) : ;;
        ssh:-F) _fulmar_files ;;
        ssh:-I) _fulmar_files ;;
        ssh:-i) _fulmar_files ;;
        ssh:-J) _fulmar_hosts ;;
        ssh:-L) : ;;
        ssh:-l) _fulmar_users ;;
        ssh:-m) _fulmar_query mac ;;
        ssh:-O) _fulmar_words 'check conninfo channels status forward cancel exit stop proxy' ;;
        ssh:-o) _fulmar_options ssh ;;
        ssh:-P) : ;;
        ssh:-p) : ;;
        ssh:-Q) _fulmar_query help ;;
        ssh:-R) : ;;
        ssh:-S) _fulmar_files ;;
        ssh:-W) : ;;
        ssh:-w) : ;;
        sshd:-C) : ;;
        sshd:-c) _fulmar_files ;;
        sshd:-E) _fulmar_files ;;
        sshd:-f) _fulmar_files ;;
        sshd:-g) : ;;
        sshd:-h) _fulmar_files ;;
        sshd:-o) _fulmar_options sshd ;;
        sshd:-p) : ;;
        sftp-server:-d) _fulmar_folders ;;
        sftp-server:-f) : ;;
        sftp-server:-l) _fulmar_words 'QUIET FATAL ERROR INFO VERBOSE DEBUG' ;;
        sftp-server:-P) : ;;
        sftp-server:-p) : ;;
        sftp-server:-Q) _fulmar_words 'requests' ;;
        sftp-server:-u) : ;;
        scp:-c) _fulmar_query cipher ;;
        scp:-D) _fulmar_files ;;
        scp:-F) _fulmar_files ;;
        scp:-i) _fulmar_files ;;
        scp:-J) _fulmar_hosts ;;
        scp:-l) : ;;
        scp:-M) : ;;
        scp:-n) : ;;
        scp:-o) _fulmar_options ssh ;;
        scp:-P) : ;;
        scp:-S) _fulmar_files ;;
        scp:-X) : ;;
        scp:--limit) : ;;
        sftp:-B) : ;;
        sftp:-b) _fulmar_files ;;
        sftp:-c) _fulmar_query cipher ;;
        sftp:-D) _fulmar_files ;;
        sftp:-F) _fulmar_files ;;
        sftp:-i) _fulmar_files ;;
        sftp:-J) _fulmar_hosts ;;
        sftp:-l) : ;;
        sftp:-o) _fulmar_options ssh ;;
        sftp:-P) : ;;
        sftp:-R) : ;;
        sftp:-S) _fulmar_files ;;
        sftp:-s) : ;;
        sftp:-X) : ;;
        each:-b) : ;;
        each:-c) _fulmar_query cipher ;;
        each:--connect-timeout) : ;;
        each:-F) _fulmar_files ;;
        each:-i) _fulmar_files ;;
        each:-J) _fulmar_hosts ;;
        each:-l) _fulmar_users ;;
        each:-m) _fulmar_query mac ;;
        each:-n) : ;;
        each:-o) _fulmar_options ssh ;;
        each:--output) _fulmar_folders ;;
        each:-p) : ;;
        each:--timeout) : ;;
        each:-x) _fulmar_hosts ;;
        agent:-A) : ;;
        agent:-a) _fulmar_files ;;
        agent:-E) _fulmar_words 'sha256 md5' ;;
        agent:-O) _fulmar_words 'allow-remote-pkcs11 no-restrict-websafe' ;;
        agent:-P) : ;;
        agent:-t) : ;;
        add:-E) _fulmar_words 'sha256 md5' ;;
        add:-e) _fulmar_files ;;
        add:-H) _fulmar_files ;;
        add:-h) : ;;
        add:-S) _fulmar_files ;;
        add:-s) _fulmar_files ;;
        add:-t) : ;;
        keygen:-a) : ;;
        keygen:-b) : ;;
        keygen:-C) : ;;
        keygen:-D) _fulmar_files ;;
        keygen:-E) _fulmar_words 'sha256 md5' ;;
        keygen:-F) _fulmar_hosts ;;
        keygen:-f) _fulmar_files ;;
        keygen:-I) : ;;
        keygen:-M) _fulmar_words 'generate screen auto' ;;
        keygen:-m) _fulmar_words 'RFC4716 PKCS8 PEM hexdump' ;;
        keygen:-N) : ;;
        keygen:-n) : ;;
        keygen:-O) : ;;
        keygen:-P) : ;;
        keygen:-R) _fulmar_hosts ;;
        keygen:-r) _fulmar_hosts ;;
        keygen:-s) _fulmar_files ;;
        keygen:-t) _fulmar_words 'ed25519 ecdsa rsa ed25519-sk ecdsa-sk mldsa44-ed25519' ;;
        keygen:-V) : ;;
        keygen:-w) _fulmar_files ;;
        keygen:-Y) _fulmar_words 'sign verify check-novalidate find-principals match-principals' ;;
        keygen:-Z) _fulmar_query cipher ;;
        keygen:-z) : ;;
        keyscan:-f) _fulmar_files ;;
        keyscan:-O) _fulmar_words 'hashalg=sha1 hashalg=sha256' ;;
        keyscan:-p) : ;;
        keyscan:-T) : ;;
        keyscan:-t) _fulmar_words 'rsa ecdsa ed25519 ecdsa-sk ed25519-sk mldsa44-ed25519' ;;
        copy-id:-F) _fulmar_files ;;
        copy-id:-i) _fulmar_files ;;
        copy-id:-o) _fulmar_options ssh ;;
        copy-id:-p) : ;;
        copy-id:-t) : ;;
# bench: begin
        demo:--size) : ;;
# bench: end
# bench: begin
        bench:--cipher) _fulmar_query cipher ;;
        bench:--connections) : ;;
        bench:--files) : ;;
        bench:--html) _fulmar_files ;;
        bench:--logins) : ;;
        bench:--pairing) _fulmar_words 'ours-ours peer-peer ours-peer peer-ours' ;;
        bench:--pairs) : ;;
        bench:--part) _fulmar_words 'local down dynamic remote unix streams ping connections idle keystroke stalls idle-ping tunnel udp first-byte far' ;;
        bench:--peer) : ;;
        bench:--rate) : ;;
        bench:--rtt) : ;;
        bench:--sessions) : ;;
        bench:--size) : ;;
        bench:--way) _fulmar_words 'pipes own file null' ;;
# bench: end
# bench: begin
        speed:--html) _fulmar_files ;;
        speed:--library) _fulmar_files ;;
# bench: end
        install:--prefix) _fulmar_folders ;;
        install:--root) _fulmar_folders ;;
        install:--port) : ;;
        install:--pam) : ;;
        *)
            case $_fulmar_current in
                -*) _fulmar_flags "$program" ;;
                *) _fulmar_operand "$program" ;;
            esac
            ;;
    esac
}
_fulmar_flags() {
    case $1 in
        ssh) _fulmar_words '-4 -6 -A -a -B -b -C -c -D -E -e -F -f -G -g -I -i -J -K -k -L -l -M -m -N -n -O -o -P -p -Q -q -R -S -s -T -t -V -v -W -w -X -x -Y -y -Z --json' ;;
        sshd) _fulmar_words '-4 -6 -C -c -D -d -E -e -f -G -g -h -i -o -p -q -T -t -V' ;;
        sftp-server) _fulmar_words '-d -e -f -h -l -P -p -Q -R -u' ;;
        scp) _fulmar_words '-3 -4 -6 -A -B -C -c -D -d -F -i -J -l -M -n -O -o -P -p -q -R -r -S -s -T -v -X -Z --atomic --json --limit --sparse --verify' ;;
        sftp) _fulmar_words '-4 -6 -A -a -B -b -C -c -D -F -f -i -J -l -N -o -P -p -q -R -r -S -s -v -X' ;;
        each) _fulmar_words '-4 -6 -A -b -C -c --connect-timeout -F --first-failure --get -i -J --json -l -m -n -o --output -p --prefix --preserve --put -q -r --stdin --timeout -v -x' ;;
        agent) _fulmar_words '-A -a -c -D -d -E -k -O -P -s -T -t -U -u -V' ;;
        add) _fulmar_words '-C -c -D -d -E -e -H -h -K -k -L -l -N -Q -q -S -s -T -t -v -X -x' ;;
        keygen) _fulmar_words '-A -a -B -b -C -c -D -E -e -F -f -g -H -h -I -i -K -k -L -l -M -m -N -n -O -P -p -Q -q -R -r -s -t -U -u -V -v -w -Y -y -Z -z' ;;
        keyscan) _fulmar_words '-4 -6 -c -D -f -H -O -p -q -T -t -v' ;;
        copy-id) _fulmar_words '-F -f -i -n -o -p -s -t -x' ;;
# bench: begin
        demo) _fulmar_words '--size' ;;
# bench: end
# bench: begin
        bench) _fulmar_words '--cipher --connections --files --html --json --logins --pairing --pairs --part --peer --rate --rtt --sessions --size --way' ;;
# bench: end
# bench: begin
        speed) _fulmar_words '--json --html --library' ;;
# bench: end
        install) _fulmar_words '--prefix --root --port --openssh-config --replace-sshd --keysign --pam --replace-openssh --fulmar-defaults --package --revert --remove --dry-run' ;;
    esac
}
_fulmar_operand() {
    case $1 in
        ssh) _fulmar_hosts ;;
        scp) _fulmar_files ;;
        sftp) _fulmar_hosts ;;
        each) _fulmar_hosts ;;
        add) _fulmar_files ;;
        keygen) _fulmar_files ;;
        keyscan) _fulmar_hosts ;;
        copy-id) _fulmar_hosts ;;
# bench: begin
        bench) _fulmar_words 'throughput login echo rekey compress copy idle taskset wan forward keyscan agent sign each all up down' ;;
# bench: end
    esac
}
complete -F _fulmar fulmar

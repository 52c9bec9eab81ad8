# Types the password at the question of ssh, scp and sftp; its status for a wrong one is 5.
export SSHPASS="$T_PASSWORD"
options="-o BatchMode=no -o PubkeyAuthentication=no -l $T_GUEST"
test "$(sshpass -e ssh $options "$T_HOST" whoami)" = "$T_GUEST"
test "$(sshpass -p "$T_PASSWORD" ssh $options -o PreferredAuthentications=keyboard-interactive,password "$T_HOST" 'echo in')" = in
code=0
sshpass -p wrong ssh $options "$T_HOST" true || code=$?
test "$code" = 5
copy="-o BatchMode=no -o PubkeyAuthentication=no -o User=$T_GUEST"
sshpass -e scp $copy data "$T_HOST:data"
sshpass -e sftp $copy "$T_HOST:data" back
cmp data back

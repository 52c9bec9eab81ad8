# Unison: both sides changed, both equal afterwards.
export UNISON="$T_DIR/unison" HOME="$T_DIR"
mkdir there unison
synchronise() { unison tree "ssh://$T_HOST/$T_DIR/there" -batch -silent -sshcmd ssh; }
synchronise
diff -r tree there
echo here >tree/here
echo there >there/there
rm tree/3
synchronise
diff -r tree there
test -e tree/there
test ! -e there/3

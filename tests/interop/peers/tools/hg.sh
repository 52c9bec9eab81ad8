# Mercurial: a clone, a push and a pull.
export HGRCPATH=/dev/null HGUSER=mia
hg init there
(cd there && cp "$T_DIR/data" . && hg add -q data && hg commit -q -m one)
hg clone -q "ssh://$T_HOST/$T_DIR/there" here
cmp data here/data
(cd here && echo more >more && hg add -q more && hg commit -q -m two && hg push -q)
test "$(hg -R there log --template '{desc},')" = two,one,
hg -R there update -q
hg clone -q "ssh://$T_HOST/$T_DIR/there" again
test "$(cat again/more)" = more

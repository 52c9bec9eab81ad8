# Subversion by svn+ssh://: a checkout, a commit, an update.
export HOME="$T_DIR"
svnadmin create repository
svn checkout -q "svn+ssh://$T_HOST$T_DIR/repository" one
cp data one
(cd one && svn add -q data && svn commit -q -m first)
svn checkout -q "svn+ssh://$T_HOST$T_DIR/repository" two
cmp data two/data
(cd two && echo x >data && svn commit -q -m second)
svn update -q one
test "$(cat one/data)" = x

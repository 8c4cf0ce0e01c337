# Passes the client's words on as signals to the group $pid, one a line. The last one is `done`; if it does not come, the client is
# gone, and the command must not stay: nobody would know of it.
while IFS= read -r word; do
[ "$word" = done ] && exit 0;
kill -"$word" -- -"$pid";
done;
kill -TERM -- -"$pid";
kill -CONT -- -"$pid";
for turn in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
kill -0 -- -"$pid" || exit 0;
sleep 0.1;
done;
kill -KILL -- -"$pid";

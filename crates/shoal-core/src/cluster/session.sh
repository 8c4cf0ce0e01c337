# One command on one node, for a client elsewhere. Runs in bash. $1 is the client's mark; $2 says whose the bytes of stdin are that
# follow the command itself: the command's (`data`), or the client's own (`words`, see words.sh).
# It is sent as one line that every login shell leaves alone, so it has no single quotes, backslashes or exclamation marks.
# Both outputs end with the mark and the exit code: the client need not wait for what the command left running and what holds them open.
exec 3<&0 4>&2;
set -m;
IFS= read -r size <&3 || exit 255;
body=$(dd bs="$size" count=1 iflag=fullblock <&3 2>/dev/null; echo .);
export SHOAL_MARK="$1";
if [ "$2" = data ]; then
bash --login -i -c "${body%.}" <&3 3<&- 4>&- &
else
bash --login -i -c "${body%.}" </dev/null 3<&- 4>&- &
fi;
pid=$(jobs -p);
exec 2>/dev/null;
if [ "$2" = words ]; then
{ WORDS } <&3 3<&- 4>&- >/dev/null &
watch=$(jobs -p %2);
fi;
set +m;
exec 3<&-;
wait "$pid";
code=$?;
[ -n "$watch" ] && kill -KILL -- -"$watch";
echo "$1 over $code";
echo "$1 over $code" >&4;
exit "$code"

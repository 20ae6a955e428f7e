#!/bin/sh
# A small program for people, as there are many: it asks what to do, and asks again before it runs a command.
printf 'task> '
read -r task
printf '\nI would write that down.\n\n'
command="echo '- $(printf %s "$task" | tr -d "'")' >> notes.md"
printf '%s\nRun this? [y/N] ' "$command"
read -r answer
case $answer in
y) sh -c "$command" && printf '\nwritten\n' ;;
*) printf '\nnot written\n' ;;
esac
printf 'bye\n'

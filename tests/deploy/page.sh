# A page in Markdown as what is run of it and what is not. Sourced.

# Of each block, by the line of its opening fence: its language, the heading above it, its text.
declare -A language=() heading=() text=()
# The lines of those fences, in order.
blocks=()
# The page as a script, line for line, so that Bash's complaints name lines of the page: what is not in a block of `sh` is
# empty, and its fences are the commands `block LINE HEADING` and `end`.
script=()

# Reads the page $1.
#
# A fence that is not read as one would hide what is in it: those that are indented, have no language, or are never closed
# are errors.
read_page() {
    local page=$1 line above='' open='' number=0
    while IFS= read -r line || [ -n "$line" ]; do
        number=$((number + 1))
        if [ -n "$open" ]; then
            read_line_of_block
            continue
        fi
        script+=('')
        case $line in
        '```'[a-z]*)
            open=$number
            blocks+=("$number")
            language[$number]=${line#'```'} heading[$number]=$above text[$number]=''
            [ "${language[$number]}" != sh ] || script[number - 1]="block $number ${above@Q}"
            ;;
        *'```'* | *'~~~'*) page_error "a fence that is indented, or without a language" ;;
        '#'*) above=${line##*# } ;;
        esac
    done <"$page"
    [ -z "$open" ] || page_error "the block of line $open has no end"
}

read_line_of_block() {
    local is_run=''
    [ "${language[$open]}" != sh ] || is_run=yes
    if [ "$line" = '```' ]; then
        script+=("${is_run:+end}")
        open=''
    else
        script+=("${is_run:+$line}")
        text[$open]+=$line$'\n'
    fi
}

page_error() {
    printf '%s:%s: %s\n' "$page" "$number" "$1" >&2
    exit 1
}

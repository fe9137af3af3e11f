"""Prints what one delivery costs, from what `cost.sh` recorded. Usage: cost.py FOLDER DELIVERIES REQUESTS"""

import re
import sys

folder, deliveries, requests = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

# Whose instructions are whose: the outermost functions of each part, by what their files and names contain. How a build
# inlines decides which of several it is.
PARTS = {
    "door": [r"server/src/door\.rs:restante_server::door::serve::"],
    "store: the writer's thread": [r"sqlite/writer\.rs:std::sys::backtrace", r"sqlite::writer::Writer::run"],
    "dispatcher: attempts": [r"dispatcher/shard\.rs:restante_server::dispatcher::shard::Shard::work::"],
    "  of that, what is sent": [r"dispatcher::attempt::outgoing"],
    "  of that, a free connection": [r"channel::http::pool::Pool::take"],
    "  of that, writing and reading it": [
        r"channel::http::line::Line::drive",
        r"<hyper::client::conn::http1::Connection<T,B> as core::future",
    ],
    "dispatcher: results": [r"settler::Settler::run::"],
    "  of that, log lines": [r"telemetry::attempted::Attempted::log"],
}
ENTRY = re.compile(r"^\s*([\d,]+) \([\s\d.]+%\)\s+(\S.*)$")
CALLER = re.compile(r"^\s*[\d,]+ \([\s\d.]+%\)\s+< .*\(([\d,]+)x\)")
CALLEE = re.compile(r"^\s*([\d,]+) \([\s\d.]+%\)\s+\*\s+(\S.*)$")


def number(text):
    return int(text.replace(",", ""))


def inclusive():
    """Instructions of each function with all that it calls, by its name."""
    found = {}
    for line in open(f"{folder}/inclusive"):
        entry = ENTRY.match(line)
        if entry:
            name = entry[2].split(" [")[0]
            found[name] = max(found.get(name, 0), number(entry[1]))
    return found


def calls(pattern):
    """How often functions were called whose names match."""
    count, pending = 0, 0
    for line in open(f"{folder}/callers"):
        caller, callee = CALLER.match(line), CALLEE.match(line)
        if caller:
            pending += number(caller[1])
        elif callee:
            if re.search(pattern, callee[2]):
                count += pending
            pending = 0
    return count


def syscalls():
    table = {}
    for line in open(f"{folder}/calls"):
        columns = line.split()
        if len(columns) >= 5 and columns[0].replace(".", "").isdigit() and columns[-1] != "total":
            table[columns[-1]] = int(columns[3])
    return table


functions = inclusive()
total = functions["PROGRAM TOTALS"] if "PROGRAM TOTALS" in functions else max(functions.values())
print(f"{deliveries} deliveries of {requests} requests; for one delivery:")
print(f"{'instructions':<42}{total / deliveries:>10.0f}")
for part, patterns in PARTS.items():
    matching = [count for name, count in functions.items() if any(re.search(pattern, name) for pattern in patterns)]
    print(f"  {part:<40}{max(matching, default=0) / deliveries:>10.0f}")
print(f"{'allocations':<42}{calls(r'__rust_alloc$|__rust_alloc ') / deliveries:>10.1f}")
print(f"{'of those, grown':<42}{calls(r'__rust_realloc') / deliveries:>10.1f}")
print(f"{'copies (calls of memcpy and memmove)':<42}{calls(r'__mem(cpy|move)_') / deliveries:>10.1f}")
table = syscalls()
print(f"{'system calls':<42}{sum(table.values()) / deliveries:>10.2f}")
for name, count in sorted(table.items(), key=lambda item: -item[1])[:8]:
    print(f"  {name:<40}{count / deliveries:>10.2f}")

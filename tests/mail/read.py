"""Reads recorded mails with Python's `email` package, and says what is in them.

    python read.py RECORD

RECORD is what `receiver.py` wrote. Prints a JSON array: an object for each mail, in order.
"""

import base64
import email
import email.policy
import json
import sys


def addresses(message, name):
    header = message[name]
    if header is None:
        return []
    return [[it.display_name, it.addr_spec] for it in header.addresses]


def text(part):
    return None if part is None else part.get_payload(decode=True).decode(part.get_content_charset("ascii"))


def attachment(part):
    return {
        "filename": part.get_filename(),
        "content": base64.b64encode(part.get_payload(decode=True)).decode(),
        "content_type": part.get_content_type(),
        "content_id": part["content-id"] and str(part["content-id"]),
        "disposition": part.get_content_disposition(),
    }


def read(line):
    record = json.loads(line)
    content = base64.b64decode(record["content"])
    # Lines end in CRLF and in nothing else.
    lines = content.split(b"\r\n")
    message = email.message_from_bytes(content, policy=email.policy.SMTP)
    files = [part for part in message.walk() if part.get_filename() is not None]
    return record | {
        "content": content.decode("latin-1"),
        "bare_breaks": sum(line.count(b"\r") + line.count(b"\n") for line in lines),
        "longest_line": max(len(line) for line in lines),
        "is_ascii": content.isascii(),
        "defects": [str(it) for part in message.walk() for it in part.defects],
        "message_id": str(message["message-id"]),
        "headers": {name.lower(): str(value) for name, value in message.items()},
        "times": {name.lower(): message.keys().count(name) for name in message.keys()},
        "subject": message["subject"] and str(message["subject"]),
        **{name: addresses(message, name) for name in ["from", "to", "cc", "bcc", "reply-to"]},
        "envelope": [record["from"], record["to"]],
        "text": text(message.get_body(("plain",))),
        "html": text(message.get_body(("html",))),
        "attachments": [attachment(part) for part in files],
    }


def main():
    with open(sys.argv[1], encoding="utf-8") as record:
        json.dump([read(line) for line in record if line.endswith("\n")], sys.stdout)


main()

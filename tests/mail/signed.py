"""Verifies the DKIM signatures of mails with dkimpy, as they came and altered.

    python signed.py NAME VALUE

Reads what `read.py` prints. VALUE is the only TXT record that the DNS has, at NAME. Prints a JSON array: for each mail
its `message_id`, its number of `signatures`, whether they are `valid`, and `unnoticed`: what could be altered, and
they still were. `tried` is the number of alterations.
"""

import email
import json
import re
import sys

import dkim

# What a reader is shown, and what decides how. Each is in every mail, in one line or more.
HEADERS = ["From", "To", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type"]


def alterations(mail):
    """Copies of a mail with one byte another one, or with a line more; and what was done."""
    head, gap, body = mail.partition(b"\r\n\r\n")
    start = len(head) + len(gap)
    marks = [start + it.start() for it in re.finditer(rb"[A-Za-z0-9]", body)]
    places = {"the body's first letter": marks[0], "the body's last letter": marks[-1]} if marks else {}
    for name in HEADERS:
        line = re.search(rb"(?im)^" + name.encode() + rb":\s*[^A-Za-z0-9]*", head)
        places[name] = line.end()
    for what, place in places.items():
        # A letter or digit becomes its neighbour.
        yield what, mail[:place] + bytes([mail[place] ^ 1]) + mail[place + 1 :]
    yield "another From", b"From: Bank <bank@elsewhere.test>\r\n" + mail
    yield "the end", mail + b"p.s.\r\n"


def main():
    name, value = sys.argv[1:]

    def txt(asked, timeout=None):
        asked = asked.decode() if isinstance(asked, bytes) else asked
        return value.encode() if asked.rstrip(".") == name else None

    def is_valid(mail):
        return dkim.verify(mail, dnsfunc=txt, minkey=2048)

    def judged(read):
        mail = read["content"].encode("latin-1")
        altered = list(alterations(mail))
        return {
            "message_id": read["message_id"],
            "signatures": len(email.message_from_bytes(mail).get_all("dkim-signature", [])),
            "valid": is_valid(mail),
            "unnoticed": [what for what, other in altered if is_valid(other)],
            "tried": len(altered),
        }

    json.dump([judged(read) for read in json.load(sys.stdin)], sys.stdout)


main()

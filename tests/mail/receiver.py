"""A mail server that does what its recipients' names say, and keeps what it took.

    python receiver.py RECORD [--login USER:PASSWORD] [--mechanism LOGIN] [--certificate CERT KEY] [--address IP]

Prints its port and serves until its standard input ends. Each mail whose end arrived becomes a line of RECORD, a JSON
object, before it is answered: `from`, `to`, `content` (base64, dots unstuffed), `at` (seconds), `tls`, `user`, `answered`.

A recipient's name up to a plus sign decides; one that is not listed is as ok:

    ok                  250
    no                  550 to RCPT
    later               451 to RCPT
    later-once          451 to the first RCPT, then as ok
    busy-once           421 to the first RCPT and the end of the connection, then as ok
    broken-once         451 to the first mail's end, which is not kept, then as ok
    drop-before-once    the end of the connection instead of a 354 to the first DATA, then as ok
    drop-after          the mail is kept, and the connection ends without an answer
    drop-after-once     the first mail as drop-after, then as ok
    slow                the answer to the mail takes SLOW_SECONDS
"""

import argparse
import asyncio
import base64
import contextlib
import json
import ssl
import sys
import time

from aiosmtpd.smtp import SMTP, AuthResult

SLOW_SECONDS = 0.1


class Record:
    """What was taken, and what was refused once."""

    def __init__(self, path):
        self._file = open(path, "a", encoding="utf-8", buffering=1)
        self._known = set()

    def is_first(self, recipient):
        known = recipient in self._known
        self._known.add(recipient)
        return not known

    def keep(self, session, envelope, answered):
        content = base64.b64encode(envelope.original_content).decode()
        user = session.auth_data.login.decode() if session.authenticated else None
        mail = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "content": content,
            "at": time.time(),
            "tls": session.ssl is not None,
            "user": user,
            "answered": answered,
        }
        self._file.write(json.dumps(mail) + "\n")


def manner(recipient):
    return recipient.partition("@")[0].partition("+")[0]


class Server(SMTP):
    """SMTP with the faults that are not answers."""

    async def smtp_DATA(self, arg):
        names = self.envelope.rcpt_tos if self.envelope else []
        for name in names:
            if manner(name) == "drop-before-once" and self.event_handler.record.is_first(name):
                self.transport.close()
                return
        await super().smtp_DATA(arg)


class Handler:
    def __init__(self, record):
        self.record = record

    async def handle_RCPT(self, server, session, envelope, address, options):
        kind = manner(address)
        if kind == "no":
            return "550 5.1.1 no such mailbox"
        if kind == "later" or kind == "later-once" and self.record.is_first(address):
            return "451 4.7.1 try again later"
        if kind == "busy-once" and self.record.is_first(address):
            asyncio.get_running_loop().call_later(0.05, server.transport.close)
            return "421 4.3.2 too busy"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 known"

    async def handle_DATA(self, server, session, envelope):
        # A mail comes for each recipient by itself.
        [name] = envelope.rcpt_tos
        kind = manner(name)
        if kind == "broken-once" and self.record.is_first(name):
            return "451 4.3.0 disk trouble"
        drops = kind == "drop-after" or kind == "drop-after-once" and self.record.is_first(name)
        self.record.keep(session, envelope, not drops)
        if drops:
            server.transport.close()
            return ""
        if kind == "slow":
            await asyncio.sleep(SLOW_SECONDS)
        return "250 2.0.0 kept"


def authenticator(login):
    user, _, password = login.partition(":")

    def judge(server, session, envelope, mechanism, data):
        right = (data.login, data.password) == (user.encode(), password.encode())
        return AuthResult(success=right, handled=False, auth_data=data)

    return judge


def options(arguments):
    """How the server speaks: encrypted and only to who logs in, or to anyone."""
    given = {"data_size_limit": 40 * 1024 * 1024, "enable_SMTPUTF8": True, "hostname": "mail.test"}
    if arguments.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*arguments.certificate)
        given["tls_context"] = context
    if arguments.login:
        given |= {
            "authenticator": authenticator(arguments.login),
            "auth_required": True,
            "auth_require_tls": bool(arguments.certificate),
            "auth_exclude_mechanism": {"PLAIN", "LOGIN"} - {arguments.mechanism} if arguments.mechanism else (),
        }
    return given


async def serve(arguments):
    loop = asyncio.get_running_loop()
    handler = Handler(Record(arguments.record))
    given = options(arguments)
    server = await loop.create_server(
        lambda: Server(handler, loop=loop, **given), arguments.address, 0, backlog=512
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    # It ends with who started it.
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("record")
    parser.add_argument("--login")
    parser.add_argument("--mechanism", choices=["PLAIN", "LOGIN"])
    parser.add_argument("--certificate", nargs=2, metavar=("CERT", "KEY"))
    parser.add_argument("--address", default="127.0.0.1")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args()))


main()

"""Handing a mail to a server, over SMTP."""

import smtplib
import ssl
from email.message import EmailMessage

from demur.serve.config.webhooks import MailConfig


def send_mail(mail: MailConfig, message: EmailMessage, *, timeout_seconds: float) -> tuple[str | None, bool]:
    """Hand a message to the server; return what went wrong, None where it took it for everybody, and whether it took it
    for some, who must not get it again. Certificates are checked. The reason holds what the server says, and never the
    password."""
    trusted = None if mail.security == "none" else ssl.create_default_context()
    try:
        password = mail.password()
        if mail.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(mail.host, mail.port, timeout=timeout_seconds, context=trusted)
        else:
            server = smtplib.SMTP(mail.host, mail.port, timeout=timeout_seconds)
        with server:
            if mail.security == "starttls":
                server.starttls(context=trusted)
            if mail.user is not None and password is not None:
                server.login(mail.user, password)
            refused = server.send_message(message)
    except (OSError, smtplib.SMTPException, UnicodeError) as error:
        return f"{type(error).__name__}: {_in_words(error)}", False
    if refused:
        return f"it was not taken for {', '.join(sorted(refused))}; the others have it", True
    return None, False


def _in_words(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        said = error.smtp_error
        return f"{error.smtp_code} {said.decode(errors='replace') if isinstance(said, bytes) else said}"[:300]
    return str(error)[:300]

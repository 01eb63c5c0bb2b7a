"""The applications: terminal, web page and server; nothing else imports them."""

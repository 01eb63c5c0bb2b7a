"""What the applications (terminal, web page and server) are made of; nothing else imports it."""

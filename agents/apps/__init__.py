"""What people use an agent with: the terminal, the web page and the server; nothing else imports it."""

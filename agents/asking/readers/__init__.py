"""How each form of reply is read: the one room of parsers. A form (``ReplyForm``) pairs a parser with what it takes to be whole."""

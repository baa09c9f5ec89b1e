"""Reports for people: tables on a terminal and Markdown files. They read the JSON forms only."""

"""What a report is made of, and how it becomes Markdown, one HTML page, tables and figures."""

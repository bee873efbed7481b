"""What the window knows, free of widgets: everything here can be tested without a screen."""

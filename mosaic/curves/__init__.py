"""What curves are called and how long ones are shortened, for workers, daemon and window alike."""
